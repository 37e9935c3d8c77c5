package runs_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// twoWriters puts all matters under a fence of the rail, with an old writer beside it.
func twoWriters(t *testing.T, db *pgtest.DB) {
	t.Helper()
	exec(t, db, `SELECT ops.register_writer('rail', 'rail', ARRAY[current_user::text], NULL, NULL, 'test', 'why'),
		ops.register_writer('old', 'external', ARRAY[current_user::text], NULL, NULL, 'test', 'why'),
		ops.configure_fences(ARRAY(SELECT ops.fence_scope(b::smallint) FROM generate_series(0, 63) b), 'rail', 'test', 'why')`)
}

// moves takes a matter's bucket away from the rail.
func moves(ctx context.Context, db runs.DB, k rail.Key) error {
	change := rail.NewUUID()
	if _, err := db.Exec(ctx, `SELECT ops.plan_change($1, ops.fence_scope(ops.matter_bucket($2)), 'old', NULL, '{}', '{}', 'test', 'why')`, change, k.Matter); err != nil {
		return err
	}
	_, err := db.Exec(ctx, `SELECT ops.play_crossing($1, 'test')`, change)
	return err
}

// What another writer has authority over is not claimed, by neither kind of claim; its
// demand stays, and everybody else's is served under the epoch of its bucket.
func TestAnotherWritersMattersAreNotClaimed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	twoWriters(t, db)
	gone, here := newKey(), newKey()
	for rail.Bucket(gone.Matter) == rail.Bucket(here.Matter) {
		here = newKey()
	}
	demand(t, db, gone, 1)
	demand(t, db, here, 1)
	if err := moves(t.Context(), db.Pool, gone); err != nil {
		t.Fatal(err)
	}
	got, err := runs.Claim(t.Context(), db.Pool, 10, claimOptions())
	if err != nil || len(got) != 1 || got[0].Key != here {
		t.Fatalf("claimed %+v, %v", got, err)
	}
	if byKey, err := runs.ClaimKey(t.Context(), db.Pool, gone, rail.Interactive, claimOptions()); err != nil || len(byKey) != 0 {
		t.Fatalf("claimed by key %+v, %v", byKey, err)
	}
	if _, err := runs.Land(t.Context(), db.Pool, landing(t, got[0].Claim, `{}`)); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"matter_frames", "matter_frame_runs", "matter_frame_jobs"} {
		var epoch int64
		if err := db.Pool.QueryRow(t.Context(), `SELECT authority_epoch FROM ops.`+table+` WHERE matter_id = $1`, here.Matter).Scan(&epoch); err != nil || epoch != 1 {
			t.Errorf("%s: epoch %d, %v", table, epoch, err)
		}
	}
	db.CheckLedger(t)
}

// A build that was under way when authority moved does not land: its claim goes back,
// no attempt is charged, and the demand waits for whoever writes next.
func TestAuthorityMovesDuringABuild(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	twoWriters(t, db)
	k := newKey()
	demand(t, db, k, 1)
	stop := startRunner(t, db.Pool, builderFunc(func(ctx context.Context, r runs.Request) (runs.Frame, runs.Usage, error) {
		return runs.Frame{JSON: []byte(`{}`), SchemaVersion: "1", BuilderVersion: "1"}, runs.Usage{}, moves(ctx, db.Pool, r.Key)
	}), runnerOptions())
	eventually(t, "the run is over", func() bool { return runCount(t, db, "released") == 1 })
	stop()
	var status string
	var attempts, frames int
	if err := db.Pool.QueryRow(t.Context(), `SELECT run_status, attempts, (SELECT count(*) FROM ops.matter_frames) FROM ops.matter_frame_jobs`).
		Scan(&status, &attempts, &frames); err != nil {
		t.Fatal(err)
	}
	if status != "queued" || attempts != 0 || frames != 0 {
		t.Errorf("%s after %d attempts, %d frames", status, attempts, frames)
	}
	db.CheckLedger(t)
}

func runCount(t *testing.T, db *pgtest.DB, outcome string) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM ops.matter_frame_runs WHERE outcome = $1 AND error_kind = 'authority'`, outcome).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A frame that passed the question and is refused at its commit is fenced, not failed.
func TestRefusedAtTheCommitIsFenced(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	twoWriters(t, db)
	demand(t, db, newKey(), 1)
	c := mustClaim(t, db)
	exec(t, db, `CREATE OR REPLACE FUNCTION ops.fence_check(bucket smallint, epoch bigint) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT true'`)
	if err := moves(t.Context(), db.Pool, c.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := runs.Land(t.Context(), db.Pool, landing(t, c.Claim, `{}`)); !errors.Is(err, runs.ErrFenced) {
		t.Errorf("%v", err)
	}
	large := landing(t, c.Claim, `{"a": "`+strings.Repeat("x", 300<<10)+`"}`)
	if _, err := runs.Land(t.Context(), db.Pool, large); !errors.Is(err, runs.ErrFenced) {
		t.Errorf("a large frame: %v", err)
	}
}
