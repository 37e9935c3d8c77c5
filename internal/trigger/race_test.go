package trigger_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/trigger"
)

// races is how often each race is run; RAIL_TEST_RACES runs them longer.
func races() int {
	if n, err := strconv.Atoi(os.Getenv("RAIL_TEST_RACES")); err == nil {
		return n
	}
	return 1000
}

// field report 8: facts commit late, out of order and not at all, on hot matters,
// while several triggers decide: every committed fact becomes demand exactly once, and a number
// that was rolled back is waited for by nobody.
func TestRaceOfLateCommitsAndTriggers(t *testing.T) {
	t.Parallel()
	const writers = 50
	facts := races()
	db := pgtest.New(t)
	w := newWriting(t, db, 24, 7)
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() { w.write(facts / writers) })
	}
	done := make(chan struct{})
	var deciding sync.WaitGroup
	for range 3 {
		deciding.Go(func() { decideUntil(t, db, done) })
	}
	writing.Wait()
	close(done)
	deciding.Wait()
	drain(t, newTrigger(t, db, small))

	committed := w.committed.Load()
	t.Logf("%d facts committed, %d transactions rolled back", committed, w.rolledBack.Load())
	for what, n := range map[string]int64{
		"facts":           value[int64](t, db.Pool, `SELECT count(*) FROM ops.domain_event_outbox`),
		"receipts":        value[int64](t, db.Pool, `SELECT count(*) FROM ops.trigger_receipts WHERE verdict = 'demanded'`),
		"demands":         value[int64](t, db.Pool, `SELECT sum(requested_generation)::bigint FROM ops.matter_frame_jobs`),
		"demands counted": value[int64](t, db.Pool, `SELECT sum(demands_owed)::bigint FROM ops.matter_frame_jobs`),
	} {
		if n != committed {
			t.Errorf("%d %s of %d committed facts", n, what, committed)
		}
	}
	if n := value[int](t, db.Pool, `SELECT count(*) FROM ops.outbox_undecided`); n != 0 {
		t.Errorf("%d facts are still undecided", n)
	}
	if n := value[int](t, db.Pool, wrongReceiptsSQL); n != 0 {
		t.Errorf("%d receipts name a generation that their matter has not reached", n)
	}
	db.CheckLedger(t)
}

const wrongReceiptsSQL = `
SELECT count(*) FROM ops.trigger_receipts r JOIN ops.domain_event_outbox o USING (event_id)
  LEFT JOIN ops.matter_frame_jobs j ON j.firm_id = o.firm_id AND j.matter_id = o.matter_id
 WHERE j.requested_generation IS NULL OR r.requested_generation NOT BETWEEN 1 AND j.requested_generation`

func small(o *trigger.Options) { o.Batch = 20 }

// decideUntil decides until done is closed. Two triggers may meet on one matter, and
// still never deadlock.
func decideUntil(t *testing.T, db *pgtest.DB, done chan struct{}) {
	tr := newTrigger(t, db, small)
	for {
		if _, err := tr.Once(t.Context()); err != nil {
			t.Errorf("decide: %v (%s)", err, pg.SQLState(err))
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func drain(t *testing.T, tr *trigger.Trigger) {
	t.Helper()
	for {
		n, err := tr.Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

// writing are producers on a few hot matters.
type writing struct {
	t                     *testing.T
	pool                  *pgxpool.Pool
	keys                  []rail.Key
	committed, rolledBack atomic.Int64
}

func newWriting(t *testing.T, db *pgtest.DB, conns int32, matters int) *writing {
	t.Helper()
	w := &writing{t: t, pool: db.NewPool(t, conns), keys: make([]rail.Key, matters)}
	for i := range w.keys {
		w.keys[i] = newKey()
	}
	return w
}

var errChanged = errors.New("the producer changed its mind")

// write commits n facts, in transactions of one to three.
func (w *writing) write(n int) {
	for n > 0 && !w.t.Failed() {
		n -= w.transaction(min(n, 1+rand.N(3)), 5*time.Millisecond)
	}
}

// transaction stays open for a while; one in five is rolled back, by the whole or to
// a savepoint. It returns how many facts it committed.
func (w *writing) transaction(facts int, open time.Duration) int {
	err := pg.InTx(w.t.Context(), w.pool, func(tx pgx.Tx) error {
		for range facts {
			if err := w.insert(tx); err != nil {
				return err
			}
		}
		<-time.NewTimer(rand.N(open)).C
		switch rand.N(10) {
		case 0:
			return errChanged
		case 1:
			return w.halfHearted(tx)
		}
		return nil
	})
	switch {
	case err == nil:
		w.committed.Add(int64(facts))
		return facts
	case errors.Is(err, errChanged):
		w.rolledBack.Add(1)
	default:
		w.t.Errorf("write: %v", err)
	}
	return 0
}

// halfHearted takes a fact back with a savepoint, inside a transaction that commits.
func (w *writing) halfHearted(tx pgx.Tx) error {
	sp, err := tx.Begin(w.t.Context())
	if err != nil {
		return err
	}
	if err := w.insert(sp); err != nil {
		return err
	}
	return sp.Rollback(context.WithoutCancel(w.t.Context()))
}

func (w *writing) insert(tx pgx.Tx) error {
	k := w.keys[rand.N(len(w.keys))]
	_, err := tx.Exec(w.t.Context(), `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, 'document.uploaded')`, k.Firm, k.Matter)
	return err
}
