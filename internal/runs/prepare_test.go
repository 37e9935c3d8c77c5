package runs_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/jobs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
)

// Each statement that is put together from several owners' parts is one that the
// migrated schema understands: the parts agree about their columns.
func TestComposedStatementsPrepare(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn, err := db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for name, sql := range map[string]string{
		"claim": runs.ClaimSQL(), "claim by key": runs.ClaimKeySQL(), "land": runs.LandSQL(), "land a large frame": runs.LandArrivedSQL(),
		"fail": runs.FailSQL(), "release": runs.ReleaseSQL(), "sweep": sweep.ExpireSQL(), "dispatch lock": jobs.DispatchLockSQL,
	} {
		numbered, _, err := pgx.NamedArgs{}.RewriteQuery(t.Context(), conn.Conn(), sql, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Conn().Prepare(t.Context(), name, numbered); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
