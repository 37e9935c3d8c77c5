package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
)

// watched ends the sweeper once the named loop has turned.
type watched struct {
	loop string
	done chan struct{}
}

func (w watched) Progress(loop string) {
	if loop == w.loop {
		select {
		case w.done <- struct{}{}:
		default:
		}
	}
}
func (w watched) Failed(string, string) {}

// pruneOnce runs the real retention loop until it has turned once.
func pruneOnce(t *testing.T, db *pgtest.DB, keep sweep.Retention) {
	t.Helper()
	w := watched{"prune", make(chan struct{}, 1)}
	keep.Every = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	s := sweep.New(db.Pool, prometheus.NewRegistry(), sweep.Options{
		Every: time.Hour, Batch: 10, Retry: retry(3), Keep: keep, Wake: func() {}, Loops: w, Log: slog.New(slog.DiscardHandler),
	})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-w.done
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the sweeper ended with %v", err)
	}
}

// again lands one more frame of a matter.
func again(t *testing.T, db *pgtest.DB, c runs.Claimed) {
	t.Helper()
	if err := land(t, db, c); err != nil {
		t.Fatal(err)
	}
}

func TestRetentionKeepsTheCurrentFrameAndItsRun(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := claimed(t, db)
	again(t, db, c)
	for range 4 {
		if _, err := jobs.Demand(t.Context(), db.Pool, []jobs.Want{{Key: c.Key, Count: 1}}, time.Minute); err != nil {
			t.Fatal(err)
		}
		got, err := runs.Claim(t.Context(), db.Pool, 1, runs.ClaimOptions{Worker: "w", Builder: "test", Lease: time.Minute})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		again(t, db, got[0])
	}
	pruneOnce(t, db, sweep.Retention{Outbox: time.Hour, Receipts: time.Hour, Runs: 0, Frames: 2})
	pruneOnce(t, db, sweep.Retention{Outbox: time.Hour, Receipts: time.Hour, Runs: 0, Frames: 2})
	got := value[string](t, db.Pool, `SELECT (SELECT count(*) FROM ops.matter_frames) || ' frames, ' || (SELECT count(*) FROM ops.matter_frame_runs) || ' runs, '
	  || (SELECT count(*) FROM ops.current_frames) || ' current'`)
	if got != "2 frames, 2 runs, 1 current" {
		t.Error(got)
	}
	if d := value[int](t, db.Pool, `SELECT (SELECT count(*) FROM ops.matter_frame_runs WHERE outcome = 'landed') + l.taken - f.taken
	    - (SELECT count(*) FROM ops.matter_frames) FROM ops.retention_counters l, ops.retention_counters f WHERE l.what = 'landed_runs' AND f.what = 'frames'`); d != 0 {
		t.Errorf("counts are not conserved: off by %d", d)
	}
}

// Done means a receipt and, where publishing is required, published: nothing else
// is ever deleted.
func TestRetentionTakesOnlyFactsThatAreDone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, `INSERT INTO ops.domain_event_outbox (firm_id, event_name) SELECT gen_random_uuid(), 'firm.created' FROM generate_series(1, 5)`)
	count := func() int { return value[int](t, db.Pool, `SELECT count(*) FROM ops.domain_event_outbox`) }
	keep := sweep.Retention{Outbox: 0, Receipts: time.Hour, Runs: time.Hour, Frames: 1}
	pruneOnce(t, db, keep)
	if n := count(); n != 5 {
		t.Fatalf("undecided facts went: %d left", n)
	}
	decideAll(t, db)
	if _, err := outbox.SetPublishing(t.Context(), db.Pool, "required", "test", "a relay starts"); err != nil {
		t.Fatal(err)
	}
	pruneOnce(t, db, keep)
	if n := count(); n != 5 {
		t.Fatalf("unpublished facts went: %d left", n)
	}
	exec(t, db.Pool, `UPDATE ops.domain_event_outbox SET published_at = clock_timestamp() WHERE seq <= (SELECT min(seq) + 1 FROM ops.domain_event_outbox)`)
	pruneOnce(t, db, keep)
	if n := count(); n != 3 {
		t.Errorf("%d facts left, want the 3 unpublished", n)
	}
}

// decideAll gives every fact a receipt, as the trigger would.
func decideAll(t *testing.T, db *pgtest.DB) {
	t.Helper()
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	facts, err := outbox.Take(t.Context(), tx, 0, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		exec(t, tx, fmt.Sprintf(`INSERT INTO ops.trigger_receipts (event_id, verdict) VALUES ('%s', 'ignored')`, f.Event))
	}
	if err := outbox.Settle(t.Context(), tx, facts); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A fact that is judged again while retention is at it stays, whichever comes first:
// an undecided row without its fact would be waited for by nobody.
func TestRetentionAndRedecideDoNotMeet(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}
	exec(t, db.Pool, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, 'document.viewed')`, k.Firm, k.Matter)
	exec(t, db.Pool, `WITH r AS (INSERT INTO ops.trigger_receipts (event_id, verdict, decided_at)
		SELECT event_id, 'ignored', clock_timestamp() - interval '2 hours' FROM ops.domain_event_outbox RETURNING event_id)
		DELETE FROM ops.outbox_undecided u USING r WHERE u.event_id = r.event_id`)
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const redecide = `SELECT ops.redecide('%', '-infinity', NULL, 'test', 'test')`
	if n := value[int](t, tx, redecide); n != 1 {
		t.Fatalf("%d facts to be judged again, want 1", n)
	}
	if n, err := outbox.Prune(t.Context(), db.Pool, 0, 10); n != 0 || err != nil {
		t.Errorf("retention took %d, %v beside it", n, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	const orphans = `SELECT count(*) FROM ops.outbox_undecided u WHERE NOT EXISTS (SELECT 1 FROM ops.domain_event_outbox o WHERE o.event_id = u.event_id)`
	if n := value[int](t, db.Pool, orphans); n != 0 {
		t.Errorf("%d undecided rows have no fact", n)
	}
}
