package jobs_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/jobs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// The demand lines of the transition table, one after the other.

func TestDemandOnNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	if d := ask(t, db, k, 3, rail.Standard); d.Requested != 3 || d.Status != "queued" {
		t.Errorf("demanded %+v", d)
	}
	wants(t, db, k, job{Status: "queued", Requested: 3, Demands: 3, Priority: rail.Standard, Wait: 10, RebuildAge: never})
	urgent := newKey()
	ask(t, db, urgent, 1, rail.Interactive)
	wants(t, db, urgent, job{Status: "queued", Requested: 1, Demands: 1, Priority: rail.Interactive, RebuildAge: never})
}

func TestSettleIsNeverLongerThanItsBound(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	if _, err := jobs.Demand(t.Context(), db.Pool, []jobs.Want{{Key: k, Count: 1, Priority: rail.Bulk, Quiet: time.Hour}}, maxWait); err != nil {
		t.Fatal(err)
	}
	if j := read(t, db, k); j.Wait < 58 || j.Wait > 60 {
		t.Errorf("waits %d s", j.Wait)
	}
}

func TestDemandOnIdle(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 1, rail.Interactive)
	land(t, db, start(t, db, k)) // 2 landed
	wants(t, db, k, job{Status: "idle", Requested: 2, Claimed: 2, Landed: 2, Priority: rail.Bulk, Wait: read(t, db, k).Wait, Queued: never, Owed: never, RebuildAge: never})
	ask(t, db, k, 2, rail.Standard) // the urgency of what has landed is forgotten
	wants(t, db, k, job{Status: "queued", Requested: 4, Claimed: 2, Landed: 2, Demands: 2, Priority: rail.Standard, Wait: 10, RebuildAge: never})
}

func TestDemandOnQueuedSettlesUpToItsBound(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 1, rail.Standard)
	row := job{Status: "queued", Requested: 1, Demands: 1, Priority: rail.Standard, RebuildAge: never}
	for _, step := range []struct {
		pass         time.Duration
		wait, queued int // not_before after the demand, and the row's age, in seconds
	}{
		{5 * time.Second, 10, 5},
		{9 * time.Second, 10, 14},
		{41 * time.Second, 5, 55},   // bounded by queued_at + max_wait
		{20 * time.Second, -15, 75}, // past it: due, and stays so
	} {
		age(t, db, k, step.pass)
		ask(t, db, k, 1, rail.Standard)
		row.Requested, row.Demands = row.Requested+1, row.Demands+1
		row.Wait, row.Queued, row.Owed = step.wait, step.queued, step.queued
		wants(t, db, k, row)
	}
}

func TestInteractiveDemandSkipsSettle(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 1, rail.Bulk)
	ask(t, db, k, 1, rail.Interactive)
	wants(t, db, k, job{Status: "queued", Requested: 2, Demands: 2, Priority: rail.Interactive, RebuildAge: never})
	age(t, db, k, 3*time.Second)
	ask(t, db, k, 1, rail.Standard) // does not send it back to settle, nor make it less urgent
	wants(t, db, k, job{Status: "queued", Requested: 3, Demands: 3, Priority: rail.Interactive, Wait: -3, Queued: 3, Owed: 3, RebuildAge: never})
}

func TestPriorityOnlyGetsMoreUrgentUntilTheLanding(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	for _, step := range []struct{ ask, want rail.Priority }{
		{rail.Bulk, rail.Bulk}, {rail.Standard, rail.Standard}, {rail.Bulk, rail.Standard}, {rail.Interactive, rail.Interactive}, {rail.Standard, rail.Interactive},
	} {
		ask(t, db, k, 1, step.ask)
		if got := read(t, db, k).Priority; got != step.want {
			t.Errorf("after %s: %s, want %s", step.ask, got, step.want)
		}
	}
	c := start(t, db, k)
	ask(t, db, k, 1, rail.Bulk)
	fail(t, db, c, time.Second, 6)
	if got := read(t, db, k).Priority; got != rail.Interactive {
		t.Errorf("a failure made it %s", got)
	}
	land(t, db, start(t, db, k))
	ask(t, db, k, 1, rail.Bulk)
	if got := read(t, db, k).Priority; got != rail.Bulk {
		t.Errorf("after the landing: %s", got)
	}
}

func TestDemandNeverShortensABackoff(t *testing.T) {
	t.Parallel()
	for _, p := range []rail.Priority{rail.Interactive, rail.Standard, rail.Bulk} {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			k := newKey()
			ask(t, db, k, 1, rail.Standard)
			fail(t, db, start(t, db, k), 5*time.Minute, 6)
			ask(t, db, k, 1, p)
			wants(t, db, k, job{
				Status: "queued", Requested: 3, Claimed: 2, Demands: 2, Attempts: 1, Priority: min(p, rail.Standard), Wait: 300, RebuildAge: never,
			})
			if got := claim(t, db, 1); len(got) != 0 {
				t.Errorf("claimed in its backoff: %+v", got)
			}
		})
	}
}

func TestDemandOnRunningIsAFlag(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 1, rail.Standard)
	start(t, db, k)
	before := read(t, db, k)
	if d := ask(t, db, k, 2, rail.Bulk); d.Status != "running" || d.Requested != 4 {
		t.Errorf("demanded %+v", d)
	}
	age(t, db, k, 7*time.Second)
	ask(t, db, k, 1, rail.Standard)
	ask(t, db, k, 1, rail.Bulk)
	want := before
	want.Requested, want.Demands, want.Rebuild, want.RebuildPriority, want.RebuildAge = 6, 5, true, rail.Standard, 7
	want.Wait, want.Queued, want.Owed = before.Wait-7, before.Queued+7, before.Owed+7
	wants(t, db, k, want)
	if got := append(claim(t, db, 5), byKey(t, db, k, rail.Interactive)...); len(got) != 0 {
		t.Errorf("a second build beside the first: %+v", got)
	}
}

func TestDemandRevivesWhatFailuresParked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 1, rail.Bulk)
	if end := fail(t, db, start(t, db, k), 5*time.Minute, 1); end.Status != "parked" {
		t.Fatalf("ended %+v", end)
	}
	age(t, db, k, time.Minute)
	if d := ask(t, db, k, 1, rail.Interactive); d.Status != "queued" {
		t.Errorf("demanded %+v", d)
	}
	wants(t, db, k, job{ // not before the backoff's end, one more attempt
		Status: "queued", Requested: 3, Claimed: 2, Demands: 2, Attempts: 1, Priority: rail.Interactive, Wait: 240, Owed: 60, RebuildAge: never,
	})
	age(t, db, k, 5*time.Minute)
	got := claim(t, db, 1)
	if len(got) != 1 || got[0].Attempt != 2 {
		t.Fatalf("claimed %+v", got)
	}
	if end := fail(t, db, got[0], time.Second, 1); end.Status != "parked" {
		t.Errorf("the one more attempt ended %+v", end)
	}
}

func TestDemandLeavesWhatAPersonParked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, stop := range map[string]func(rail.Key) (string, error){
		"park":   func(k rail.Key) (string, error) { return operator().Park(t.Context(), db.Pool, k) },
		"cancel": func(k rail.Key) (string, error) { return operator().Cancel(t.Context(), db.Pool, k) },
	} {
		k := newKey()
		ask(t, db, k, 1, rail.Standard)
		if was, err := stop(k); err != nil || was != "queued" {
			t.Fatalf("%s: %q, %v", name, was, err)
		}
		if d := ask(t, db, k, 2, rail.Interactive); d.Status != "parked" || d.Requested != 3 {
			t.Errorf("%s: demanded %+v", name, d)
		}
		if got := append(claim(t, db, 5), byKey(t, db, k, rail.Interactive)...); len(got) != 0 {
			t.Errorf("%s: claimed %+v", name, got)
		}
		if ok, err := operator().Unpark(t.Context(), db.Pool, k); err != nil || !ok {
			t.Errorf("%s: unpark %v, %v", name, ok, err)
		}
		wants(t, db, k, job{Status: "queued", Requested: 3, Demands: 3, Priority: rail.Interactive, RebuildAge: never})
		land(t, db, start(t, db, k))
	}
}

// A batch is one bump a matter, however many facts name it.
func TestDemandOfABatchIsMerged(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	a, b := newKey(), newKey()
	got, err := jobs.Demand(t.Context(), db.Pool, []jobs.Want{
		{Key: b, Count: 1, Priority: rail.Bulk, Quiet: quiet},
		{Key: a, Count: 2, Priority: rail.Standard, Quiet: 2 * quiet},
		{Key: b, Count: 4, Priority: rail.Standard, Quiet: 2 * quiet},
		{Key: a, Count: 1, Priority: rail.Bulk, Quiet: 3 * quiet},
	}, maxWait)
	if err != nil {
		t.Fatal(err)
	}
	requested := map[rail.Key]int64{}
	for _, d := range got {
		requested[d.Key] = d.Requested
	}
	if diff := cmp.Diff(map[rail.Key]int64{a: 3, b: 5}, requested); diff != "" || len(got) != 2 {
		t.Errorf("demanded %+v", got)
	}
	wants(t, db, a, job{Status: "queued", Requested: 3, Demands: 3, Priority: rail.Standard, Wait: 20, RebuildAge: never})
	wants(t, db, b, job{Status: "queued", Requested: 5, Demands: 5, Priority: rail.Standard, Wait: 10, RebuildAge: never})
	if got, err := jobs.Demand(t.Context(), db.Pool, nil, maxWait); err != nil || got != nil {
		t.Errorf("demand for nothing: %v, %v", got, err)
	}
}
