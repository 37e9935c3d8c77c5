package jobs_test

import (
	"testing"
	"time"

	"briefrail/internal/jobs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

func TestClaimTakesTheNextNumber(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 3, rail.Interactive)
	got := claim(t, db, 5)
	if len(got) != 1 || got[0].Token.Generation != 4 || got[0].Demands != 3 || got[0].Attempt != 1 || got[0].Token.Run.IsZero() {
		t.Fatalf("claimed %+v", got)
	}
	wants(t, db, k, job{Status: "running", Requested: 4, Claimed: 4, Demands: 3, Attempts: 1, Priority: rail.Interactive, RebuildAge: never})
	run := value[string](t, db, `SELECT concat_ws(' ', outcome, generation, attempt, worker, builder, demands) FROM ops.matter_frame_runs WHERE run_id = $1`, got[0].Token.Run)
	if run != "running 4 1 w b 3" {
		t.Errorf("opened %s", run)
	}
}

func TestClaimWaitsForNotBefore(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 1, rail.Standard)
	if got := claim(t, db, 5); len(got) != 0 {
		t.Errorf("claimed while it settles: %+v", got)
	}
	due, err := jobs.NextDue(t.Context(), db.Pool, jobs.Reach{})
	if err != nil || due < 8*time.Second || due > quiet {
		t.Errorf("due in %s, %v", due, err)
	}
	age(t, db, k, quiet)
	if got := claim(t, db, 5); len(got) != 1 {
		t.Errorf("claimed %+v", got)
	}
	if due, err := jobs.NextDue(t.Context(), db.Pool, jobs.Reach{}); err != nil || due != 0 {
		t.Errorf("due in %s, %v", due, err)
	}
}

func TestClaimByKeyFromEachState(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, c := range map[string]struct {
		lead func(rail.Key)
		want job // of the row afterwards; the zero job where nothing is won
	}{
		"none": {func(rail.Key) {}, job{Requested: 1, Claimed: 1, Attempts: 1, Wait: never, Queued: never}},
		"idle": {
			func(k rail.Key) { land(t, db, start(t, db, k)) },
			job{Requested: 2, Claimed: 2, Landed: 1, Attempts: 1, Queued: never},
		},
		"settling": {
			func(k rail.Key) { ask(t, db, k, 1, rail.Bulk); age(t, db, k, 4*time.Second) },
			job{Requested: 2, Claimed: 2, Demands: 1, Attempts: 1, Wait: 6, Queued: 4, Owed: 4},
		},
		"backing off": {
			func(k rail.Key) { fail(t, db, start(t, db, k), time.Hour, 6) },
			job{Requested: 2, Claimed: 2, Attempts: 2, Wait: 3600},
		},
		"lease ran out": {
			func(k rail.Key) { start(t, db, k); age(t, db, k, 2*lease) },
			job{Requested: 2, Claimed: 2, Attempts: 2, Wait: never, Queued: never, Owed: 120},
		},
		"lease ran out, with demand": {
			func(k rail.Key) { during(t, db, k, rail.Interactive); age(t, db, k, 2*lease) },
			job{Requested: 6, Claimed: 6, Demands: 4, Attempts: 2, Wait: -217, Queued: 227, Owed: 227},
		},
		"running":            {func(k rail.Key) { start(t, db, k) }, job{}},
		"parked by failures": {func(k rail.Key) { fail(t, db, start(t, db, k), 0, 1) }, job{}},
		"parked by an operator": {func(k rail.Key) {
			ask(t, db, k, 1, rail.Standard)
			if _, err := operator().Park(t.Context(), db.Pool, k); err != nil {
				t.Error(err)
			}
		}, job{}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKey()
			c.lead(k)
			got := byKey(t, db, k, rail.Interactive)
			if c.want == (job{}) {
				if len(got) != 0 {
					t.Errorf("claimed %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Token.Generation != c.want.Claimed || got[0].Attempt != c.want.Attempts {
				t.Fatalf("claimed %+v", got)
			}
			c.want.Status, c.want.Priority, c.want.RebuildAge = "running", rail.Interactive, never
			wants(t, db, k, c.want)
		})
	}
	db.CheckLedger(t)
}

// The demand that came during a claim is served by whoever takes it over, with its
// urgency.
func TestTakeOverKeepsTheUrgencyOfTheRebuild(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	old := during(t, db, k, rail.Interactive)
	age(t, db, k, 2*lease)
	got := byKey(t, db, k, rail.Bulk)
	if len(got) != 1 || outcome(t, db, old) != "expired" {
		t.Fatalf("claimed %+v, the old run is %s", got, outcome(t, db, old))
	}
	fail(t, db, got[0], 0, 6)
	if j := read(t, db, k); j.Priority != rail.Interactive {
		t.Errorf("row %+v", j)
	}
}

func TestPausesHoldClaimsBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	a, b := newKey(), newKey()
	ready := func() {
		for _, k := range []rail.Key{a, b} {
			ask(t, db, k, 1, rail.Interactive)
		}
	}
	ready()
	for _, p := range []struct {
		firm rail.UUID
		want int // claims of the two matters
	}{{rail.UUID{}, 0}, {a.Firm, 1}} {
		if ok, err := operator().Pause(t.Context(), db.Pool, p.firm); err != nil || !ok {
			t.Fatalf("pause: %v, %v", ok, err)
		}
		if ok, err := operator().Pause(t.Context(), db.Pool, p.firm); err != nil || ok {
			t.Errorf("paused twice: %v, %v", ok, err)
		}
		if got := byKey(t, db, a, rail.Interactive); len(got) != 0 {
			t.Errorf("claimed by key in a pause: %+v", got)
		}
		got := claim(t, db, 5)
		if len(got) != p.want {
			t.Errorf("claimed %+v, want %d", got, p.want)
		}
		for _, c := range got {
			land(t, db, c)
		}
		if ok, err := operator().Resume(t.Context(), db.Pool, p.firm); err != nil || !ok {
			t.Errorf("resume: %v, %v", ok, err)
		}
	}
	if got := claim(t, db, 5); len(got) != 1 || got[0].Key != a {
		t.Errorf("after the pauses: %+v", got)
	}
	if n := value[int](t, db, `SELECT count(*) FROM ops.audit_log WHERE action LIKE 'dispatch.%'`); n != 4 {
		t.Errorf("%d audit rows of two pauses", n)
	}
}

// A build that runs goes on in a pause: it lands, and its follow-up waits.
func TestPauseLetsRunningBuildsLand(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	c := during(t, db, k, rail.Interactive)
	if _, err := operator().Pause(t.Context(), db.Pool, rail.UUID{}); err != nil {
		t.Fatal(err)
	}
	if out := land(t, db, c); !out.FollowUp {
		t.Error("no follow-up")
	}
	if got := claim(t, db, 5); len(got) != 0 {
		t.Errorf("claimed %+v", got)
	}
}

// several queues n matters of one firm, ready at once, and returns them in order.
func several(t *testing.T, db *pgtest.DB, firm rail.UUID, n int, p rail.Priority) []rail.Key {
	t.Helper()
	keys := make([]rail.Key, n)
	wants := make([]jobs.Want, n)
	for i := range keys {
		keys[i] = rail.Key{Firm: firm, Matter: rail.NewUUID()}
		wants[i] = jobs.Want{Key: keys[i], Count: 1, Priority: p}
	}
	if _, err := jobs.Demand(t.Context(), db.Pool, wants, maxWait); err != nil {
		t.Fatal(err)
	}
	return keys
}

func next(t *testing.T, db *pgtest.DB) runs.Claimed {
	t.Helper()
	got := claim(t, db, 1)
	if len(got) != 1 {
		t.Fatalf("claimed %d", len(got))
	}
	return got[0]
}

func TestInsideAFirmUrgencyThenAge(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	firm := rail.NewUUID()
	bulk := several(t, db, firm, 1, rail.Bulk)[0]
	young := several(t, db, firm, 1, rail.Standard)[0]
	old := several(t, db, firm, 1, rail.Standard)[0]
	urgent := several(t, db, firm, 1, rail.Interactive)[0]
	age(t, db, bulk, time.Hour)
	age(t, db, old, time.Minute)
	for i, want := range []rail.Key{urgent, old, young, bulk} {
		if c := next(t, db); c.Key != want {
			t.Errorf("claim %d took another one", i)
		}
	}
}

func TestTheFirmWithFewestBuildsIsNext(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	a, b := rail.NewUUID(), rail.NewUUID()
	several(t, db, a, 6, rail.Interactive)
	several(t, db, b, 2, rail.Bulk)
	count := map[rail.UUID]int{}
	for i := range 6 { // urgency is a firm's own affair
		count[next(t, db).Key.Firm]++
		if d := count[a] - count[b]; i < 4 && (d > 1 || d < -1) {
			t.Fatalf("after %d claims: %v", i+1, count)
		}
	}
	if count[a] != 4 || count[b] != 2 {
		t.Errorf("claims %v", count)
	}
	if got := claim(t, db, 10); len(got) != 2 {
		t.Errorf("the rest: %d", len(got))
	}
}

// One pick of several slots is as fair as several picks of one.
func TestOnePickIsSharedAmongFirms(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for range 4 {
		several(t, db, rail.NewUUID(), 10, rail.Standard)
	}
	count := map[rail.UUID]int{}
	for _, c := range claim(t, db, 8) {
		count[c.Key.Firm]++
	}
	for firm, n := range count {
		if n != 2 || len(count) != 4 {
			t.Errorf("firm %s got %d of 8", firm, n)
		}
	}
}

func TestTiesGoToTheOldestLastClaim(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	firms := []rail.UUID{rail.NewUUID(), rail.NewUUID(), rail.NewUUID()}
	for _, f := range firms {
		several(t, db, f, 5, rail.Standard)
	}
	var order []rail.UUID
	for range 9 {
		c := next(t, db)
		order = append(order, c.Key.Firm)
		land(t, db, c) // nobody runs anything at the next pick
	}
	for i := range 6 {
		if order[i] != order[i+3] || order[i] == order[(i+1)%3] {
			t.Fatalf("not in turn: %v", order)
		}
	}
	newcomer := several(t, db, rail.NewUUID(), 1, rail.Bulk)[0]
	if c := next(t, db); c.Key != newcomer {
		t.Error("a firm that was never served is not next")
	}
}

// One firm with 20,000 queued matters must not delay another's single one by more
// than the next free slot.
func TestAFloodOfOneFirmDelaysNobody(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	flood := rail.NewUUID()
	several(t, db, flood, 20_000, rail.Interactive)
	exec(t, db, `ANALYZE ops.matter_frame_jobs`)
	running := claim(t, db, 16)
	if len(running) != 16 {
		t.Fatalf("claimed %d", len(running))
	}
	single := several(t, db, rail.NewUUID(), 1, rail.Bulk)[0]
	land(t, db, running[0]) // a slot is free
	began := time.Now()
	o := options()
	o.Scan = 256
	got, err := runs.Claim(t.Context(), db.Pool, 1, o)
	if err != nil || len(got) != 1 || got[0].Key != single {
		t.Fatalf("the free slot went to %+v, %v", got, err)
	}
	t.Logf("picked in %s", time.Since(began))
}
