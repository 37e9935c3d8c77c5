package relay_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/relay"
)

func TestEveryFactIsSentAndMarkedOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ids := facts(t, db, 700)
	bus := newBus()
	r := start(t, db, options(bus))
	eventually(t, "everything published", func() bool { return unpublished(t, db) == 0 })
	ids = append(ids, facts(t, db, 3)...) // while it is idle
	eventually(t, "everything published", func() bool { return unpublished(t, db) == 0 })
	bus.tookOnce(t, ids)
	eventually(t, "all counted", func() bool { return r.metric(t, "rail_outbox_published_total", "") == 703 })
	if n := r.metric(t, "rail_outbox_commit_to_publish_seconds", ""); n != 703 {
		t.Errorf("%v ages observed", n)
	}
	if n := r.metric(t, "rail_relay_buckets", ""); n != 64 {
		t.Errorf("%v buckets", n)
	}
	l, err := outbox.ReadLedger(t.Context(), db.Pool)
	if err != nil || l.Publishing != "required" {
		t.Errorf("publishing %q, %v", l.Publishing, err)
	}
	if n := bus.callCount(); n > 85 {
		t.Errorf("%d calls for 703 facts", n)
	}
}

// field report 10: 200 with failures per entry. Each fact is judged by its own
// result.
func TestResultsArePerEntry(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ids := facts(t, db, 10)
	bad := map[rail.UUID]nudge.Result{
		ids[0]: {Verdict: nudge.Retry, Code: "InternalFailure", Text: "sorry"},
		ids[4]: {Verdict: nudge.Retry, Code: "ThrottlingException", Text: "slow down"},
		ids[9]: {Verdict: nudge.Retry, Code: "no_answer_for_it", Text: "named neither as taken nor as failed"},
	}
	bus := newBus()
	bus.set(each(func(n nudge.Nudge) nudge.Result {
		if r, ok := bad[n.Event]; ok {
			return r
		}
		return nudge.Result{Verdict: nudge.Sent}
	}))
	o := options(bus)
	o.Backoff = outbox.Backoff{First: time.Hour, Max: time.Hour}
	r := start(t, db, o)
	eventually(t, "seven published and three noted", func() bool {
		return unpublished(t, db) == 3 && count(t, db, `SELECT count(*) FROM ops.outbox_failures WHERE parked_at IS NULL`) == 3
	})
	for _, id := range ids {
		if _, failed := bad[id]; published(t, db, id) == failed {
			t.Errorf("%s: failed %v, published %v", id, failed, !failed)
		}
	}
	for _, code := range []string{"InternalFailure", "ThrottlingException", "no_answer_for_it"} {
		if n := r.metric(t, "rail_outbox_publish_failures_total", code); n != 1 {
			t.Errorf("%s counted %v times", code, n)
		}
	}
	exec(t, db, `UPDATE ops.outbox_failures SET next_attempt_at = clock_timestamp()`)
	bus.set(nil)
	eventually(t, "the rest published", func() bool { return unpublished(t, db) == 0 })
	bus.tookOnce(t, ids)
}

// An answer that fits no question marks nothing.
func TestAListOfAnotherLengthMarksNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	facts(t, db, 10)
	bus := newBus()
	bus.set(func(ctx context.Context, n []nudge.Nudge) ([]nudge.Result, error) {
		all, err := takeAll(ctx, n)
		return all[:len(all)-1], err
	})
	start(t, db, options(bus))
	eventually(t, "ten noted", func() bool { return count(t, db, `SELECT count(*) FROM ops.outbox_failures`) == 10 })
	if n := unpublished(t, db); n != 10 {
		t.Errorf("%d unpublished", n)
	}
	bus.set(nil)
	eventually(t, "published", func() bool { return unpublished(t, db) == 0 })
}

// A hang and a reset answer: the outcome is unknown, so it counts as not sent; the
// other calls go on meanwhile.
func TestAnUnknownOutcomeIsNotSent(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	facts(t, db, 40)
	bus := newBus()
	var turn atomic.Int64
	bus.set(func(ctx context.Context, n []nudge.Nudge) ([]nudge.Result, error) {
		switch turn.Add(1) {
		case 1:
			<-ctx.Done()
			return nil, ctx.Err()
		case 2:
			return nil, errors.New("connection reset by peer")
		}
		return takeAll(ctx, n)
	})
	o := options(bus)
	o.Timeout = time.Second
	r := start(t, db, o)
	eventually(t, "everything published", func() bool { return unpublished(t, db) == 0 })
	if n := r.metric(t, "rail_outbox_publish_failures_total", "timeout"); n == 0 {
		t.Error("a hang is counted as a timeout")
	}
}

// A fact that no sink will ever take parks with its reason; those beside and behind
// it are sent.
func TestAPoisonRowParksAndDelaysNobody(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ids := facts(t, db, 100)
	bus := newBus()
	bus.set(each(func(n nudge.Nudge) nudge.Result {
		switch n.Event {
		case ids[0]:
			return nudge.Result{Verdict: nudge.Final, Code: "MalformedDetail", Text: "no"}
		case ids[1]: // never parks, never succeeds
			return nudge.Result{Verdict: nudge.Retry, Code: "InternalFailure"}
		}
		return nudge.Result{Verdict: nudge.Sent}
	}))
	r := start(t, db, options(bus))
	eventually(t, "all but two published", func() bool { return unpublished(t, db) == 2 })
	later := facts(t, db, 50)
	eventually(t, "the later ones as well", func() bool { return unpublished(t, db) == 2 })
	for _, id := range append(ids[2:], later...) {
		if n := bus.askedFor(id); n != 1 {
			t.Errorf("neighbour %s was sent %d times", id, n)
		}
	}
	if n := bus.askedFor(ids[0]); n != 1 {
		t.Errorf("the parked fact was sent %d times", n)
	}
	eventually(t, "the other is tried on", func() bool { return bus.askedFor(ids[1]) > 3 })
	if parked, err := outbox.ListParked(t.Context(), db.Pool, 5); err != nil || len(parked) != 1 || parked[0].Event != ids[0] || !strings.Contains(parked[0].Reason, "MalformedDetail") {
		t.Errorf("parked %+v, %v", parked, err)
	}
	if !strings.Contains(r.log.String(), "fact parked") {
		t.Error("nobody was told")
	}
}

// Expired credentials: paused, one clear error, no fact blamed, and it goes on by
// itself.
func TestASinkPausesAndRecovers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ids := facts(t, db, 200)
	bus := newBus()
	bus.set(each(func(nudge.Nudge) nudge.Result {
		return nudge.Result{Verdict: nudge.Paused, Code: "ExpiredTokenException", Text: "the token has expired"}
	}))
	r := start(t, db, options(bus))
	eventually(t, "paused", func() bool { _, _, _, yes := r.Paused(); return yes })
	calls := bus.callCount()
	eventually(t, "probed three times", func() bool { return bus.callCount() >= calls+3 })
	if name, _, why, _ := r.Paused(); name != "eventbridge" || !strings.Contains(why, "ExpiredTokenException") {
		t.Errorf("%s paused: %s", name, why)
	}
	if n := r.metric(t, "rail_sink_paused", "eventbridge"); n != 1 {
		t.Errorf("rail_sink_paused %v", n)
	}
	if n := count(t, db, `SELECT count(*) FROM ops.outbox_failures`); n != 0 {
		t.Errorf("%d facts are blamed", n)
	}
	bus.set(nil)
	eventually(t, "everything published", func() bool { return unpublished(t, db) == 0 })
	if _, _, _, yes := r.Paused(); yes || r.metric(t, "rail_sink_paused", "") != 0 {
		t.Error("still paused")
	}
	if n := strings.Count(r.log.String(), "sink paused"); n != 1 {
		t.Errorf("%d errors in the log", n)
	}
	bus.tookOnce(t, ids)
}

// A name that alone is forbidden does not stop the others.
func TestOneForbiddenNameDoesNotPauseTheOthers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ids := facts(t, db, 300)
	bus := newBus()
	bus.set(each(func(n nudge.Nudge) nudge.Result {
		if n.Event == ids[7] {
			return nudge.Result{Verdict: nudge.Paused, Code: "NotAuthorizedForDetailTypeException"}
		}
		return nudge.Result{Verdict: nudge.Sent}
	}))
	start(t, db, options(bus))
	eventually(t, "all but one", func() bool { return unpublished(t, db) == 1 })
	if n := count(t, db, `SELECT count(*) FROM ops.outbox_failures WHERE parked_at IS NOT NULL`); n != 0 {
		t.Error("parked for a configuration")
	}
}

// A sink that is paused holds back what is its own: the other takes every fact, once,
// also across a restart, and the paused one all of them when it opens.
func TestAPausedSinkHoldsNoOtherBack(t *testing.T) {
	t.Parallel()
	for _, paused := range []int{0, 1} {
		t.Run([]string{"the first", "the second"}[paused], func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			buses := []*fakeBus{newBus(), newBus()}
			o := options(buses[0])
			o.Lease, o.StopGrace = time.Minute, time.Minute
			o.Sinks = append(o.Sinks, relay.Sink{Name: "sqs", Publisher: buses[1], Entries: 5, Bytes: 100 << 10})
			shut, healthy := buses[paused], buses[1-paused]
			shut.set(each(func(nudge.Nudge) nudge.Result { return nudge.Result{Verdict: nudge.Paused, Code: "AccessDenied"} }))
			ids := facts(t, db, 60)
			taken := func() bool {
				return !slices.ContainsFunc(ids, func(id rail.UUID) bool { return healthy.taken(id) == 0 })
			}
			r := start(t, db, o)
			eventually(t, "paused, and all taken by the other", func() bool { _, _, _, yes := r.Paused(); return yes && taken() })
			ids = append(ids, facts(t, db, 300)...)
			eventually(t, "what came meanwhile too", taken)
			r.end(t)
			start(t, db, o)
			calls := shut.callCount()
			eventually(t, "probed again", func() bool { return shut.callCount() >= calls+3 })
			if n := unpublished(t, db); n != len(ids) {
				t.Errorf("%d of %d are published", len(ids)-n, len(ids))
			}
			if n := count(t, db, `SELECT count(*) FROM ops.outbox_failures WHERE waits_for = $1 AND attempts = 0 AND parked_at IS NULL`, o.Sinks[paused].Name); n != len(ids) {
				t.Errorf("%d of %d wait, none blamed", n, len(ids))
			}
			shut.set(nil)
			eventually(t, "all published", func() bool { return unpublished(t, db) == 0 })
			for _, id := range ids {
				if healthy.askedFor(id) != 1 || shut.taken(id) != 1 {
					t.Errorf("%s: the healthy one was asked %d times, the other took it %d times", id, healthy.askedFor(id), shut.taken(id))
				}
			}
			if n := count(t, db, `SELECT count(*) FROM ops.outbox_failures`); n != 0 {
				t.Errorf("%d notes stay", n)
			}
		})
	}
}

// With several sinks a fact is published when all have taken it, and is not sent
// again to one that had.
func TestSeveralSinks(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ids := facts(t, db, 30)
	first, second := newBus(), newBus()
	second.set(each(func(n nudge.Nudge) nudge.Result {
		if n.Event[15]%2 == 0 {
			return nudge.Result{Verdict: nudge.Retry, Code: "InternalFailure"}
		}
		return nudge.Result{Verdict: nudge.Sent}
	}))
	o := options(first)
	o.Sinks = append(o.Sinks, relay.Sink{Name: "sqs", Publisher: second, Entries: 5, Bytes: 100 << 10})
	start(t, db, o)
	even := 0
	for _, id := range ids {
		if id[15]%2 == 0 {
			even++
		}
	}
	eventually(t, "the odd ones published", func() bool {
		return unpublished(t, db) == even && count(t, db, `SELECT count(*) FROM ops.outbox_failures WHERE sent_to = '{eventbridge}'`) == even
	})
	second.set(nil)
	eventually(t, "all published", func() bool { return unpublished(t, db) == 0 })
	first.tookOnce(t, ids)
	second.tookOnce(t, ids)
}

// A stop finishes what was sent, marks it, and gives the buckets back.
func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	facts(t, db, 400)
	bus := newBus()
	release, under := make(chan struct{}), make(chan struct{}, 100)
	bus.set(func(ctx context.Context, n []nudge.Nudge) ([]nudge.Result, error) {
		under <- struct{}{}
		<-release
		return takeAll(ctx, n)
	})
	r := start(t, db, options(bus))
	for range 4 {
		<-under
	}
	r.stop()
	close(release)
	r.end(t)
	taken := 0
	for _, n := range bus.took {
		taken += n
	}
	if left := unpublished(t, db); taken != 40 || left != 400-taken {
		t.Errorf("%d taken, %d unpublished", taken, left)
	}
	if n := count(t, db, `SELECT count(*) FROM ops.outbox_bucket_leases WHERE holder IS NOT NULL`); n != 0 {
		t.Errorf("%d buckets kept", n)
	}
	if n := count(t, db, `SELECT count(*) FROM ops.outbox_failures`); n != 0 {
		t.Errorf("%d facts blamed for the stop", n)
	}
}

// field report 9: while a call lasts, no session is in a transaction.
func TestNoTransactionIsOpenWhileASinkIsSlow(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	facts(t, db, 100)
	bus := newBus()
	release, under := make(chan struct{}), make(chan struct{}, 100)
	bus.set(func(ctx context.Context, n []nudge.Nudge) ([]nudge.Result, error) {
		under <- struct{}{}
		<-release
		return takeAll(ctx, n)
	})
	start(t, db, options(bus))
	<-under
	if n := count(t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`); n != 0 {
		t.Errorf("%d sessions idle in a transaction", n)
	}
	facts(t, db, 10) // writers are unaffected
	close(release)
	eventually(t, "published", func() bool { return unpublished(t, db) == 0 })
}

// The database goes away between answer and mark, and comes back: nothing is sent
// again, and the loop backs off meanwhile.
func TestTheDatabaseGoesAndComesBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ids := facts(t, db, 20)
	bus := newBus()
	var r *running
	ready := make(chan struct{})
	bus.set(func(ctx context.Context, n []nudge.Nudge) ([]nudge.Result, error) {
		<-ready
		r.line.cut.Store(true)
		return takeAll(ctx, n)
	})
	r = start(t, db, options(bus))
	close(ready)
	eventually(t, "faults", func() bool { return r.loops.faults.Load() > 3 })
	if n := unpublished(t, db); n != 20 {
		t.Fatalf("%d unpublished", n)
	}
	before := r.line.queries.Load()
	eventually(t, "some time", func() bool { return r.loops.faults.Load() > 6 })
	if n := r.line.queries.Load() - before; n > 10 {
		t.Errorf("%d queries of a database that is away", n)
	}
	bus.set(nil)
	r.line.cut.Store(false)
	eventually(t, "published", func() bool { return unpublished(t, db) == 0 })
	bus.tookOnce(t, ids)
}

func TestAnIdleRelayAsksTwiceASecondAtMost(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	o := options(newBus())
	o.MaxIdle = time.Second
	r := start(t, db, o)
	eventually(t, "idle", func() bool { return r.loops.turns.Load() > 5 })
	before, begin := r.line.queries.Load(), time.Now()
	eventually(t, "five seconds later", func() bool { return time.Since(begin) > 5*time.Second })
	if n := r.line.queries.Load() - before; n > 10 {
		t.Errorf("%d queries in 5 s", n)
	}
}

func TestWithoutASinkNothingIsCarried(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	facts(t, db, 5)
	o := options(nil)
	o.Sinks = nil
	r := start(t, db, o)
	eventually(t, "turns", func() bool { return r.loops.turns.Load() > 2 })
	if n := r.line.queries.Load(); n != 0 {
		t.Errorf("%d queries", n)
	}
	l, err := outbox.ReadLedger(t.Context(), db.Pool)
	if err != nil || l.Publishing != "none" {
		t.Errorf("publishing %q, %v", l.Publishing, err)
	}
}
