package runs_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg/pgtest"
	"briefrail/internal/runs"
)

// forgetful is a database that loses the answers to one statement, or never gets it.
type forgetful struct {
	*pgxpool.Pool
	sql    string
	unsent bool
	losses atomic.Int64
}

func (f *forgetful) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	switch {
	case sql != f.sql || f.losses.Add(-1) < 0:
		return f.Pool.QueryRow(ctx, sql, args...)
	case f.unsent:
		return lostRow{}
	}
	return lostRow{f.Pool.QueryRow(ctx, sql, args...), func() {}}
}

// A hand-back whose answer is lost, or which finds no server, is made all the same:
// nothing waits for the lease, no attempt is charged, and nobody is called fenced.
func TestTheEndOfAnAttemptOutlastsALostAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, sql, outcome, status string }{
		{"released at a stop", runs.ReleaseSQL(), "released", "queued"},
		{"failed", runs.FailSQL(), "failed", "queued"},
	} {
		for _, unsent := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: ", not sent", false: ", not answered"}[unsent], func(t *testing.T) {
				t.Parallel()
				db := pgtest.New(t)
				k := newKey()
				demand(t, db, k, 1)
				f := &forgetful{Pool: db.Pool, sql: c.sql, unsent: unsent}
				f.losses.Store(3)
				building := make(chan struct{}, 9)
				stop := startRunner(t, f, builderFunc(func(ctx context.Context, _ runs.Request) (runs.Frame, runs.Usage, error) {
					building <- struct{}{}
					if c.outcome == "released" {
						<-ctx.Done()
						return runs.Frame{}, runs.Usage{}, context.Cause(ctx)
					}
					return runs.Frame{}, runs.Usage{}, errors.Join(errors.New("no"), io.ErrClosedPipe)
				}), runnerOptions())
				<-building
				if c.outcome == "failed" {
					eventually(t, "an end of the attempt", func() bool { return status(t, db, k) == c.status })
				}
				stop()
				if got := one[string](t, db, `SELECT outcome FROM ops.matter_frame_runs`); got != c.outcome {
					t.Errorf("the run is %s", got)
				}
				charged := map[string]int{"released": 0, "failed": 1}[c.outcome]
				if got := one[int](t, db, `SELECT attempts FROM ops.matter_frame_jobs`); got != charged || status(t, db, k) != c.status {
					t.Errorf("%d attempts charged, %s", got, status(t, db, k))
				}
				if n := one[int](t, db, `SELECT count(*) FROM ops.matter_frame_runs WHERE late_write_at IS NOT NULL`); n != 0 {
					t.Error("its own write is called late")
				}
			})
		}
	}
}
