package trigger_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/trigger"
)

// field report 8, round after round at random moments: one transaction takes the
// lowest numbers and ends last or in the middle of the others, some leave a gap,
// while two triggers decide and a relay publishes. What is committed is decided
// and published beside a transaction that is still open, and so is that one once it
// has ended.
func TestRaceOfLateCommitsAndGaps(t *testing.T) {
	t.Parallel()
	r := newRounds(t)
	rounds := races()
	for i := range rounds {
		if r.round(); t.Failed() {
			break
		}
		if i%100 == 0 { // the test server has no autovacuum, and every look would pass what is dead
			exec(t, r.db, `VACUUM ops.outbox_undecided, ops.domain_event_outbox, ops.matter_frame_jobs`)
		}
	}
	r.check()
	t.Logf("%d rounds: %d facts committed, %d transactions rolled back", rounds, r.committed.Load(), r.rolledBack.Load())
	if n := value[int](t, r.db.Pool, wrongReceiptsSQL); n != 0 {
		t.Errorf("%d receipts name a generation that their matter has not reached", n)
	}
	r.db.CheckLedger(t)
}

// rounds are the producers and both of those who read what they commit.
type rounds struct {
	*writing
	db       *pgtest.DB
	triggers []*trigger.Trigger
	relay    outbox.Holder
	look     outbox.Look
}

func newRounds(t *testing.T) *rounds {
	t.Helper()
	db := pgtest.New(t)
	r := &rounds{
		writing: newWriting(t, db, 4, 3), db: db, relay: outbox.Holder{ID: rail.NewUUID(), Name: "relay"},
		triggers: []*trigger.Trigger{newTrigger(t, db, small), newTrigger(t, db, small)},
	}
	share, err := outbox.LeaseBuckets(t.Context(), db.Pool, r.relay, time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range share.Leases { // those without a matter would only cost time
		if slices.ContainsFunc(r.keys, func(k rail.Key) bool { return rail.Bucket(k.Matter) == int(l.Bucket) }) {
			r.look.Leases = append(r.look.Leases, l)
		}
	}
	r.look.After, r.look.Limit = make([]int64, len(r.look.Leases)), 100
	return r
}

// round is one race and what must be true behind it.
func (r *rounds) round() {
	facts := 1 + rand.N(2)
	late, err := r.pool.Begin(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	defer late.Rollback(context.WithoutCancel(r.t.Context()))
	for range facts {
		if err := r.insert(late); err != nil {
			r.t.Fatal(err)
		}
	}
	last := rand.N(2) == 0
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { dawdle(); r.transaction(1+rand.N(2), time.Millisecond) })
	}
	if !last {
		all.Go(func() { dawdle(); r.end(late, facts) })
	}
	for _, read := range r.readers() {
		all.Go(func() {
			for range 1 + rand.N(2) {
				dawdle()
				read()
			}
		})
	}
	all.Wait()
	r.check()
	if last {
		r.end(late, facts) // and the next round looks for it
	}
}

// end commits the transaction that was first, or leaves its numbers as a gap.
func (r *rounds) end(late pgx.Tx, facts int) {
	if rand.N(3) == 0 {
		if err := late.Rollback(r.t.Context()); err != nil {
			r.t.Errorf("roll back: %v", err)
		}
		r.rolledBack.Add(1)
		return
	}
	if err := late.Commit(r.t.Context()); err != nil {
		r.t.Errorf("commit late: %v", err)
	}
	r.committed.Add(int64(facts))
}

// readers are one look each at what there is to read; they return how much it was.
func (r *rounds) readers() (looks []func() int) {
	for _, tr := range r.triggers {
		looks = append(looks, func() int {
			n, err := tr.Once(r.t.Context())
			if err != nil {
				r.t.Errorf("decide: %v (%s)", err, pg.SQLState(err))
			}
			return n
		})
	}
	return append(looks, r.publish)
}

// publish is a relay whose sink takes everything.
func (r *rounds) publish() int {
	facts, _, err := outbox.Batch(r.t.Context(), r.db.Pool, r.relay, r.look)
	if err != nil {
		r.t.Errorf("read a batch: %v", err)
	}
	marked, err := outbox.Mark(r.t.Context(), r.db.Pool, r.relay, facts)
	if err != nil || len(marked) != len(facts) {
		r.t.Errorf("%d marked of %d: %v", len(marked), len(facts), err)
	}
	return len(marked)
}

// dawdle passes nothing or up to a millisecond.
func dawdle() {
	if rand.N(3) > 0 {
		<-time.NewTimer(rand.N(time.Millisecond)).C
	}
}

const settledSQL = `
SELECT count(*), count(published_at),
       (SELECT count(*) FROM ops.trigger_receipts WHERE verdict = 'demanded'), (SELECT coalesce(sum(requested_generation), 0)::bigint FROM ops.matter_frame_jobs),
       (SELECT count(*) FROM ops.outbox_undecided)
  FROM ops.domain_event_outbox`

// settled is how far the facts have come that a new snapshot shows.
type settled struct{ facts, published, receipts, demands, undecided int64 }

// check has everybody read to the end, and counts.
func (r *rounds) check() {
	for _, read := range r.readers()[1:] { // one of the triggers, and the relay
		for read() > 0 && !r.t.Failed() {
		}
	}
	n := r.committed.Load()
	want := settled{facts: n, published: n, receipts: n, demands: n}
	var got settled
	err := r.pool.QueryRow(r.t.Context(), settledSQL).Scan(&got.facts, &got.published, &got.receipts, &got.demands, &got.undecided)
	if err != nil || got != want {
		r.t.Errorf("%+v, want %+v; %v", got, want, err)
	}
}
