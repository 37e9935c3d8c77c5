package runs_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
)

// races is how often each race is run; RAIL_TEST_RACES runs them longer.
func races() int {
	if n, err := strconv.Atoi(os.Getenv("RAIL_TEST_RACES")); err == nil {
		return n
	}
	return 1000
}

// race runs one iteration after the other on each of a few goroutines, all in one
// database, and then looks whether the ledger still means something.
func race(t *testing.T, db *pgtest.DB, n int, iteration func(i int)) {
	t.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n) && !t.Failed(); i = next.Add(1) {
				iteration(int(i))
			}
		})
	}
	all.Wait()
	db.CheckLedger(t)
}

// together starts the functions at one instant, each after a small random delay.
func together(fs ...func()) {
	start := make(chan struct{})
	var all sync.WaitGroup
	for _, f := range fs {
		all.Go(func() {
			<-start
			dawdle()
			f()
		})
	}
	close(start)
	all.Wait()
}

// dawdle passes nothing, some turns of the scheduler, or up to two milliseconds.
func dawdle() {
	switch rand.N(3) {
	case 0:
	case 1:
		for range rand.N(200) {
			runtime.Gosched()
		}
	case 2:
		<-time.NewTimer(rand.N(2 * time.Millisecond)).C
	}
}

// asked records demand from any goroutine.
func asked(t *testing.T, db pg.DB, k rail.Key, n int) {
	t.Helper()
	if _, err := jobs.Demand(t.Context(), db, []jobs.Want{{Key: k, Count: n, Priority: rail.Standard}}, time.Minute); err != nil {
		t.Errorf("demand: %v", err)
	}
}

// took claims by key from any goroutine; ok is false where it won nothing.
func took(t *testing.T, db pg.DB, k rail.Key) (c runs.Claimed, ok bool) {
	t.Helper()
	got, err := runs.ClaimKey(t.Context(), db, k, rail.Standard, claimOptions())
	if err != nil {
		t.Errorf("claim: %v", err)
	}
	if len(got) == 0 {
		return c, false
	}
	return got[0], true
}

// lapsed is took for a matter that is free, with a lease that runs out at once.
func lapsed(t *testing.T, db pg.DB, k rail.Key) (c runs.Claimed, ok bool) {
	t.Helper()
	c, ok = took(t, db, k)
	if !ok {
		t.Error("nothing claimed")
		return c, false
	}
	if _, err := db.Exec(t.Context(), `UPDATE ops.matter_frame_jobs SET lease_expires_at = clock_timestamp() WHERE run_id = $1`, c.Token.Run); err != nil {
		t.Error(err)
	}
	return c, true
}

// rowOf is the part of a job row that the races judge by.
type rowOf struct {
	Status                      string
	Requested, Claimed, Landed  int64
	Demands                     int64
	Rebuild                     bool
	Attempts, Priority, Waiting int
}

func row(t *testing.T, db pg.DB, k rail.Key) (r rowOf) {
	t.Helper()
	err := db.QueryRow(t.Context(), `SELECT run_status, requested_generation, claimed_generation, landed_generation, demands_owed, rebuild_needed,
	  attempts, priority, coalesce(ceil(extract(epoch FROM not_before - clock_timestamp())), 0)::int
	  FROM ops.matter_frame_jobs WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter).
		Scan(&r.Status, &r.Requested, &r.Claimed, &r.Landed, &r.Demands, &r.Rebuild, &r.Attempts, &r.Priority, &r.Waiting)
	if err != nil {
		t.Errorf("row of %s: %v", k, err)
	}
	return r
}

func outcomeOf(t *testing.T, db pg.DB, run rail.UUID) string {
	t.Helper()
	o, err := runs.Outcome(t.Context(), db, run)
	if err != nil {
		t.Error(err)
	}
	return o
}

func TestRaceOfClaimersHasOneWinner(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.NewPool(t, 16)
	const claimers = 32
	for i := range races() {
		k := newKey()
		asked(t, pool, k, 1)
		var won [claimers][]runs.Claimed
		fs := make([]func(), claimers)
		for c := range fs {
			fs[c] = func() { won[c] = grab(t, pool, k, c%8 == 0) }
		}
		together(fs...)
		all := slices.Concat(won[:]...)
		if len(all) != 1 {
			t.Fatalf("race %d: %d winners", i, len(all))
		}
		if r := row(t, pool, k); r.Claimed != 2 || r.Attempts != 1 {
			t.Fatalf("race %d: one claim made %+v", i, r)
		}
		if _, err := runs.Land(t.Context(), pool, landing(t, all[0].Claim, `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	db.CheckLedger(t)
}

// grab claims one matter, by batch or by key, and returns what it won.
func grab(t *testing.T, db pg.DB, k rail.Key, batch bool) []runs.Claimed {
	o := claimOptions()
	o.Only, o.Scan = k.Firm, 16
	claim := func() ([]runs.Claimed, error) { return runs.ClaimKey(t.Context(), db, k, rail.Standard, o) }
	if batch {
		claim = func() ([]runs.Claimed, error) { return runs.Claim(t.Context(), db, 2, o) }
	}
	got, err := claim()
	if err != nil {
		t.Errorf("claim: %v", err)
	}
	return got
}

func sum(ns []int) (n int) {
	for _, x := range ns {
		n += x
	}
	return n
}

// Demand reaches a build beside its claim, during it, beside its landing and after
// it: whatever the moment, it is one follow-up, and none is lost.
func TestRaceOfDemandAgainstABuildIsOneFollowUp(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.NewPool(t, 12)
	race(t, db, races(), func(int) {
		k := newKey()
		asked(t, pool, k, 1)
		ask := func() { asked(t, pool, k, 1) }
		var c runs.Claimed
		var ok bool
		together(ask, func() { c, ok = took(t, pool, k) })
		if !ok {
			t.Error("nothing claimed")
			return
		}
		together(ask, ask, ask, func() {
			if _, err := runs.Land(t.Context(), pool, landing(t, c.Claim, `{}`)); err != nil {
				t.Errorf("land: %v", err)
			}
		})
		// five demands and one claim's own bump; what the claim did not take is owed
		owed := 5 - c.Demands
		if r := row(t, pool, k); r.Status != "queued" || int64(r.Demands) != owed || r.Requested != 6 || r.Rebuild || c.Demands > 2 {
			t.Errorf("after four demands beside claim and landing of %d demands: %+v", c.Demands, r)
		}
		c, ok = took(t, pool, k)
		if _, second := took(t, pool, k); !ok || second {
			t.Errorf("follow-up claimed: %v, and once more: %v", ok, second)
		}
		if out, err := runs.Land(t.Context(), pool, landing(t, c.Claim, `{}`)); err != nil || out.FollowUp || c.Demands != owed {
			t.Errorf("follow-up for %d demands landed %+v, %v", c.Demands, out, err)
		}
		if r := row(t, pool, k); r.Status != "idle" {
			t.Errorf("after the follow-up: %+v", r)
		}
	})
}

// The end of a claim: whoever is first wins, the others are told so.
func TestRaceOfLandSweepRenewAndCancel(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.NewPool(t, 16)
	var mu sync.Mutex
	ends := map[string]int{}
	race(t, db, races(), func(int) {
		k := newKey()
		asked(t, pool, k, 1)
		c, ok := lapsed(t, pool, k)
		if !ok {
			return
		}
		var landed, released error
		var was string
		fs := []func(){
			func() { _, landed = runs.Land(t.Context(), pool, landing(t, c.Claim, `{}`)) },
			func() { swept(t, pool) },
			func() { renewed(t, pool, c.Claim) },
			func() { was = cancelled(t, pool, k) },
			func() { _, released = runs.Release(t.Context(), pool, c.Claim, runs.Failure{Kind: "interrupted"}, 0) },
		}
		rand.Shuffle(len(fs), func(i, j int) { fs[i], fs[j] = fs[j], fs[i] })
		together(fs...)
		end := outcomeOf(t, pool, c.Token.Run)
		mu.Lock()
		ends[end]++
		mu.Unlock()
		if (landed == nil) != (end == "landed") || (released == nil) != (end == "released") || (was == "running") != (end == "cancelled") {
			t.Errorf("run ended as %q; land: %v, release: %v, cancel met %q", end, landed, released, was)
		}
		for _, err := range []error{landed, released} {
			if err != nil && !errors.Is(err, runs.ErrFenced) {
				t.Errorf("the loser was told %v", err)
			}
		}
		if r := row(t, pool, k); r.Status == "running" || (end == "landed") != (r.Status == "idle") {
			t.Errorf("run ended as %q, row %+v", end, r)
		}
	})
	t.Logf("ends: %v", ends)
	for _, end := range []string{"landed", "released", "cancelled", "expired"} {
		if races() >= 1000 && ends[end] == 0 {
			t.Errorf("no race ended as %s", end)
		}
	}
}

func swept(t *testing.T, db pg.DB) {
	_, err := sweep.Expire(t.Context(), db, 4, runs.Retry{MaxAttempts: 6, Backoff: time.Microsecond, BackoffMax: time.Microsecond})
	if err != nil {
		t.Errorf("sweep: %v", err)
	}
}

func renewed(t *testing.T, db pg.DB, c jobs.Claim) {
	// a lease of nothing, so that the sweep may still come
	if _, err := jobs.Renew(t.Context(), db, []jobs.Claim{c}, 0); err != nil {
		t.Errorf("renew: %v", err)
	}
}

func cancelled(t *testing.T, db pg.DB, k rail.Key) string {
	was, err := jobs.Actor{Name: "op", Reason: "why"}.Cancel(t.Context(), db, k)
	if err != nil {
		t.Errorf("cancel: %v", err)
	}
	return was
}

// A claim that is refused because the matter runs, and then its demand: the winner
// may finish in between, and still nothing is lost, as demand is one statement that
// asks the row itself.
func TestRaceOfARefusedClaimsDemand(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.NewPool(t, 12)
	var refused atomic.Int64
	race(t, db, races(), func(int) {
		k := newKey()
		first, ok := took(t, pool, k)
		if !ok {
			t.Error("nothing claimed")
			return
		}
		together(
			func() {
				if _, err := runs.Land(t.Context(), pool, landing(t, first.Claim, `{}`)); err != nil {
					t.Errorf("land: %v", err)
				}
			},
			func() {
				if _, ok := took(t, pool, k); !ok {
					refused.Add(1)
					dawdle()
					asked(t, pool, k, 1)
				}
			},
		)
		if r := row(t, pool, k); r.Status == "idle" || r.Landed == r.Requested {
			t.Errorf("the second demand is lost: %+v", r)
		}
	})
	t.Logf("%d of %d claims were refused", refused.Load(), races())
}

// Any take-over and any zombie at once: each generation is served once, frames
// never go back.
func TestRaceOfZombiesAndTakeOvers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.NewPool(t, 16)
	race(t, db, races(), func(int) {
		k := newKey()
		first, ok := lapsed(t, pool, k)
		if !ok {
			return
		}
		var zombie error
		takers := [3]runs.Claimed{}
		var won [3]int
		take := func(i int) func() {
			return func() {
				c, ok := took(t, pool, k)
				if takers[i] = c; ok {
					won[i] = 1
				}
			}
		}
		together(take(0), take(1), take(2), func() { _, zombie = runs.Land(t.Context(), pool, landing(t, first.Claim, `{"by":"first"}`)) })
		if sum(won[:]) != 1 {
			t.Errorf("%d take-overs won", sum(won[:]))
			return
		}
		next := takers[slices.Index(won[:], 1)]
		if next.Token.Generation <= first.Token.Generation {
			t.Errorf("token %s after %s", next.Token, first.Token)
		}
		if end := outcomeOf(t, pool, first.Token.Run); (zombie == nil) != (end == "landed") || (end != "landed" && end != "expired") {
			t.Errorf("the first holder's run is %s, its landing said %v", end, zombie)
		}
		if _, err := runs.Land(t.Context(), pool, landing(t, next.Claim, `{"by":"next"}`)); err != nil {
			t.Errorf("the new holder: %v", err)
		}
	})
}
