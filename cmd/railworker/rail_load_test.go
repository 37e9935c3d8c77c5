package main

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"briefrail/internal/nudge/awsfake"
)

// The whole rail under a bus that drops, doubles, reorders and forges a third of all
// nudges, loses answers and hangs, while relays and workers are killed: the same
// frames land as without.
//
// field report 9: calls of the bus that hang hold nobody up. field report 13: what was
// accepted before a kill or a lost answer comes again and costs no build. field
// report 15: messages come back after a second, sooner than much is built, and
// deletions fail.
func TestWholeRailSurvivesChaosAndKills(t *testing.T) {
	t.Parallel()
	r := newRail(t, serve(t, slow(40*time.Millisecond)), awsfake.Layout{Visibility: time.Second})
	r.SetChaos(awsfake.Chaos{Drop: 0.3, Duplicate: 0.3, Reorder: 0.3, Forge: 0.3})
	r.Always("PutEvents", 0.1, awsfake.AcceptThenReset())
	r.Always("PutEvents", 0.02, awsfake.AcceptThenHang())
	r.Always("DeleteMessageBatch", 0.2, awsfake.InvalidReceiptHandle(0))
	l := &load{keys: newKeys(10, sized(100, 500)), facts: sized(600, 5000), producers: 8, pause: 100 * time.Millisecond}
	var kills int
	var living []*process
	var fleet sync.WaitGroup
	done, begun := make(chan struct{}), time.Now()
	fleet.Go(func() { kills, living = r.killer(t, done, 800*time.Millisecond) })
	if err := l.run(t.Context(), r.db.NewPool(t, 8)); err != nil {
		t.Error(err)
	}
	loaded := time.Since(begun)
	close(done)
	fleet.Wait()
	awaitQuiet(t, r.db.Pool, 5*time.Minute)
	r.awaitPublished(t)
	r.awaitEmptyQueue(t)
	for _, w := range living {
		w.awaitStart(t)
	}
	r.assertDelivered(t)
	r.assertForgeries(t, living)
	if told := one[int64](t, r.db.Pool, `SELECT count(*) FROM ops.domain_event_outbox WHERE event_name = $1`, uploaded); told != l.committed.Load() {
		t.Errorf("%d facts committed, %d in the outbox", l.committed.Load(), told)
	}
	stats := r.Stats()
	t.Logf("%d facts, load %s, current after %s, %d kills, %d builder calls; the bus took %d, dropped %d, doubled %d, reordered %d, forged %d; buried %v",
		l.committed.Load(), loaded.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond), kills, r.builder.count(),
		stats.Events, stats.Dropped, stats.Duplicated, stats.Reordered, stats.Forged, r.letters(t))
}

// The queue is not the truth: with every nudge lost, the sweep of the outbox brings
// every Brief up to date.
func TestEveryNudgeIsLost(t *testing.T) {
	t.Parallel()
	r := newRail(t, serve(t, nil), awsfake.Layout{})
	r.SetChaos(awsfake.Chaos{Drop: 1})
	r.startRelay(t)
	r.startWorker(t)
	r.tellOfMatters(t, 4, newKeys(2, 10)...)
	awaitQuiet(t, r.db.Pool, 2*time.Minute)
	r.awaitPublished(t)
	r.assertDelivered(t)
	if s := r.Stats(); s.Arrived != 0 || s.Dropped < 40 {
		t.Errorf("%d nudges arrived, %d were dropped", s.Arrived, s.Dropped)
	}
	// decided by nobody but the sweep, which leaves young facts to their nudges
	if early := one[int](t, r.db.Pool, `SELECT count(*) FROM ops.domain_event_outbox o JOIN ops.trigger_receipts r USING (event_id)
		WHERE r.decided_at < o.recorded_at + interval '2 seconds'`); early != 0 {
		t.Errorf("%d facts were decided within the grace", early)
	}
}

// SIGTERM with messages in hand, one of which cannot be decided as somebody holds its
// matter: its neighbours are decided and deleted, it is handed back at once, and
// nothing stays invisible.
func TestStopWithMessagesInHand(t *testing.T) {
	t.Parallel()
	r := newRail(t, serve(t, nil), awsfake.Layout{Visibility: 10 * time.Minute})
	r.worker = r.worker.with(settings{"TRIGGER_GRACE": "1h", "SETTLE_QUIET": "0", "TRIGGER_RECEIVERS": "1"})
	w, keys := r.startWorker(t), newKeys(2, 10)
	relay := r.startRelay(t)
	r.tellOfMatters(t, 1, keys[0])
	awaitQuiet(t, r.db.Pool, 2*time.Minute)
	r.awaitEmptyQueue(t)

	tx, err := r.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM ops.matter_frame_jobs WHERE matter_id = $1 FOR UPDATE`, keys[0].Matter); err != nil {
		t.Fatal(err)
	}
	r.tellOfMatters(t, 1, keys...)
	eventually(t, time.Minute, "it has messages in hand", func() bool {
		_, inFlight, _ := r.Depth("brief")
		return inFlight > 0 && peek[bool](t.Context(), r.db.Pool, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE 'railworker%' AND wait_event_type = 'Lock')`)
	})
	w.signal(syscall.SIGTERM)
	if code := w.await(t, 20*time.Second); code != 0 {
		t.Errorf("exit %d:\n%s", code, w.log)
	}
	r.awaitPublished(t)
	if _, inFlight, _ := r.Depth("brief"); inFlight != 0 {
		t.Errorf("%d messages are left invisible", inFlight)
	}
	r.assertHanded(t)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.startWorker(t)
	awaitQuiet(t, r.db.Pool, 2*time.Minute)
	r.awaitPublished(t)
	r.awaitEmptyQueue(t)
	r.assertDelivered(t)
	if n := len(r.Bodies("brief-dead")); n != 0 || relay.gone() {
		t.Errorf("%d dead letters; the relay ended: %v", n, relay.gone())
	}
}

// assertHanded: what is undecided is in the queue, visible, and the rest is decided.
func (r *wholeRail) assertHanded(t *testing.T) {
	t.Helper()
	undecided := one[int](t, r.db.Pool, `SELECT count(*) FROM ops.outbox_undecided`)
	if visible, _, _ := r.Depth("brief"); undecided == 0 || visible < undecided {
		t.Errorf("%d facts undecided, %d messages visible", undecided, visible)
	}
}
