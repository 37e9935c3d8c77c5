package jobs_test

import (
	"errors"
	"testing"
	"time"

	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// The ends of a claim, line by line of the transition table.

func facts(t *testing.T, db *pgtest.DB, name rail.EventName) int {
	t.Helper()
	return value[int](t, db, `SELECT count(*) FROM ops.domain_event_outbox WHERE event_name = $1`, string(name))
}

// during starts a build and lets demand come meanwhile: bulk, then seven seconds
// later the given one.
func during(t *testing.T, db *pgtest.DB, k rail.Key, p rail.Priority) runs.Claimed {
	t.Helper()
	ask(t, db, k, 1, rail.Standard)
	age(t, db, k, 100*time.Second)
	c := start(t, db, k)
	ask(t, db, k, 1, rail.Bulk)
	age(t, db, k, 7*time.Second)
	ask(t, db, k, 2, p)
	return c
}

func TestLandingHandsOverToTheDemandDuringTheBuild(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	calm, urgent := newKey(), newKey()
	if out := land(t, db, during(t, db, calm, rail.Standard)); !out.FollowUp || out.Owed < 106*time.Second {
		t.Errorf("landed %+v", out)
	}
	wants(t, db, calm, job{ // settles from the first demand on
		Status: "queued", Requested: 5, Claimed: 2, Landed: 2, Demands: 3, Priority: rail.Standard, Wait: 3, Queued: 7, Owed: 7, RebuildAge: never,
	})
	land(t, db, during(t, db, urgent, rail.Interactive))
	wants(t, db, urgent, job{
		Status: "queued", Requested: 5, Claimed: 2, Landed: 2, Demands: 3, Priority: rail.Interactive, Queued: 7, Owed: 7, RebuildAge: never,
	})
	if got := claim(t, db, 5); len(got) != 1 || got[0].Key != urgent || got[0].Demands != 3 || !got[0].RetryOf.IsZero() || got[0].Attempt != 1 {
		t.Errorf("claimed %+v", got)
	}
	if n := facts(t, db, rail.BriefLanded); n != 2 {
		t.Errorf("%d facts of two landings", n)
	}
}

func TestLandingForgetsAttemptsAndErrors(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 1, rail.Standard)
	fail(t, db, start(t, db, k), 0, 6)
	if e := value[string](t, db, `SELECT last_error FROM ops.matter_frame_jobs`); e != "slow" {
		t.Errorf("last_error %q", e)
	}
	if out := land(t, db, start(t, db, k)); out.FollowUp {
		t.Error("a follow-up that nobody asked for")
	}
	j := read(t, db, k)
	if j.Status != "idle" || j.Attempts != 0 || j.Demands != 0 || j.Owed != never || j.Landed != 3 || j.Requested != 3 {
		t.Errorf("row %+v", j)
	}
	if !value[bool](t, db, `SELECT last_error IS NULL FROM ops.matter_frame_jobs`) {
		t.Error("last_error stays after a landing")
	}
}

func TestFailQueuesWithBackoffUntilTheCap(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 1, rail.Standard)
	age(t, db, k, 50*time.Second)
	for n := 1; n <= 3; n++ {
		c := start(t, db, k)
		if c.Attempt != n || c.RetryOf.IsZero() != (n == 1) {
			t.Errorf("attempt %d claimed as %+v", n, c)
		}
		end := fail(t, db, c, 2*time.Minute, 3)
		if want := map[bool]string{true: "parked", false: "queued"}[n == 3]; end.Status != want || end.Attempts != n {
			t.Errorf("attempt %d ended %+v", n, end)
		}
		if o := outcome(t, db, c); o != "failed" {
			t.Errorf("run is %s", o)
		}
	}
	wants(t, db, k, job{Status: "parked", Requested: 4, Claimed: 4, Demands: 1, Attempts: 3, Priority: rail.Standard, Wait: 120, Owed: 50, RebuildAge: never})
	if n := facts(t, db, rail.BriefParked); n != 1 {
		t.Errorf("%d facts of one parking", n)
	}
	if why := value[string](t, db, `SELECT parked_by || ': ' || parked_reason FROM ops.matter_frame_jobs`); why != "failures: slow" {
		t.Errorf("parked %q", why)
	}
}

func TestBackoffDoublesUpToItsBoundWithJitter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 1, rail.Standard)
	retry := runs.Retry{MaxAttempts: 100, Backoff: 5 * time.Second, BackoffMax: 40 * time.Second}
	var longest [8]float64
	for round := range 16 {
		for n := range longest {
			c := start(t, db, k)
			if _, err := runs.Fail(t.Context(), db.Pool, c.Claim, runs.Failure{Kind: "other"}, retry); err != nil {
				t.Fatal(err)
			}
			wait := value[float64](t, db, `SELECT extract(epoch FROM not_before - queued_at)::float8 FROM ops.matter_frame_jobs`)
			if bound := min(40, 5*float64(int(1)<<n)) + 0.1; wait < -0.1 || wait > bound {
				t.Errorf("round %d, attempt %d waits %.1f s of at most %.1f", round, n+1, wait, bound)
			}
			longest[n] = max(longest[n], wait)
		}
		if _, err := operator().Park(t.Context(), db.Pool, k); err != nil {
			t.Fatal(err)
		}
		if _, err := operator().Unpark(t.Context(), db.Pool, k); err != nil {
			t.Fatal(err)
		}
	}
	// sixteen draws all in the lower tenth: one in 10^16
	if longest[0] < 0.5 || longest[7] < 4 {
		t.Errorf("no spread: longest waits %v", longest)
	}
}

func TestPermanentFailureParksAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 1, rail.Standard)
	end, err := runs.Fail(t.Context(), db.Pool, start(t, db, k).Claim, runs.Failure{Kind: "http_4xx", Text: "422", Permanent: true}, runs.Retry{MaxAttempts: 6})
	if err != nil || end.Status != "parked" || end.Attempts != 1 {
		t.Errorf("ended %+v, %v", end, err)
	}
}

func TestDemandDuringADoomedBuildGetsItsTry(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, end := range map[string]func(runs.Claimed) string{
		"at the cap": func(c runs.Claimed) string { return fail(t, db, c, time.Minute, 1).Status },
		"permanent": func(c runs.Claimed) string {
			e, err := runs.Fail(t.Context(), db.Pool, c.Claim, runs.Failure{Kind: "http_4xx", Permanent: true, RetryAfter: time.Minute},
				runs.Retry{MaxAttempts: 6, BackoffMax: time.Minute})
			if err != nil {
				t.Error(err)
			}
			return e.Status
		},
	} {
		k := newKey()
		c := during(t, db, k, rail.Interactive)
		if s := end(c); s != "queued" {
			t.Errorf("%s: %s", name, s)
		}
		wants(t, db, k, job{ // with the backoff, the urgency and the age of all that is owed
			Status: "queued", Requested: 5, Claimed: 2, Demands: 4, Attempts: 1, Priority: rail.Interactive, Wait: 60, Owed: 107, RebuildAge: never,
		})
	}
	if n := facts(t, db, rail.BriefParked); n != 0 {
		t.Errorf("%d facts of no parking", n)
	}
}

func TestReleaseIsQueuedAtOnceAndUncharged(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for delay, wait := range map[time.Duration]int{0: 0, 30 * time.Second: 30} {
		k := newKey()
		c := during(t, db, k, rail.Interactive)
		end, err := runs.Release(t.Context(), db.Pool, c.Claim, runs.Failure{Kind: "interrupted"}, delay)
		if err != nil || end.Status != "queued" || outcome(t, db, c) != "released" {
			t.Errorf("released %+v, %v", end, err)
		}
		wants(t, db, k, job{
			Status: "queued", Requested: 5, Claimed: 2, Demands: 4, Priority: rail.Interactive, Wait: wait, Owed: 107, RebuildAge: never,
		})
	}
}

func TestSweepFailsWhatIsSilent(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	live, first, last, wanted := newKey(), newKey(), newKey(), newKey()
	claims := map[rail.Key]runs.Claimed{}
	for _, k := range []rail.Key{live, first, last} {
		ask(t, db, k, 1, rail.Standard)
		claims[k] = start(t, db, k)
	}
	claims[wanted] = during(t, db, wanted, rail.Interactive)
	unguarded(t, db, `UPDATE ops.matter_frame_jobs SET attempts = 2 WHERE firm_id IN ($1, $2)`, last.Firm, wanted.Firm)
	exec(t, db, `UPDATE ops.matter_frame_jobs SET lease_expires_at = clock_timestamp() WHERE firm_id <> $1`, live.Firm)
	got := map[rail.Key]string{}
	for _, e := range expire(t, db, 2) {
		if e.Token != claims[e.Key].Token {
			t.Errorf("swept %s of %s, held by %s", e.Token, e.Key, claims[e.Key].Token)
		}
		got[e.Key] = e.Status
	}
	// two attempts are all there are, but new demand gets its try
	if len(got) != 3 || got[first] != "queued" || got[last] != "parked" || got[wanted] != "queued" {
		t.Errorf("swept %v", got)
	}
	for k, want := range map[rail.Key]string{live: "running", first: "expired", last: "expired", wanted: "expired"} {
		if o := outcome(t, db, claims[k]); o != want {
			t.Errorf("run is %s, want %s", o, want)
		}
	}
	if n := facts(t, db, rail.BriefParked); n != 1 {
		t.Errorf("%d facts of one parking", n)
	}
	if again := expire(t, db, 2); len(again) != 0 {
		t.Errorf("swept again: %v", again)
	}
	if j := read(t, db, wanted); j.Priority != rail.Interactive || j.Owed < 100 {
		t.Errorf("the swept row forgot its urgency or age: %+v", j)
	}
	db.CheckLedger(t)
}

func TestParkAndCancelFenceALiveClaim(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, stop := range map[string]func(rail.Key) (string, error){
		"matter.park":   func(k rail.Key) (string, error) { return operator().Park(t.Context(), db.Pool, k) },
		"matter.cancel": func(k rail.Key) (string, error) { return operator().Cancel(t.Context(), db.Pool, k) },
	} {
		k := newKey()
		c := during(t, db, k, rail.Interactive)
		if was, err := stop(k); err != nil || was != "running" {
			t.Errorf("%s: %q, %v", name, was, err)
		}
		if was, err := stop(k); err != nil || was != "" {
			t.Errorf("%s twice: %q, %v", name, was, err)
		}
		j := read(t, db, k)
		if j.Status != "parked" || j.Priority != rail.Interactive || j.Rebuild || j.Owed < 100 || j.Demands != 4 || outcome(t, db, c) != "cancelled" {
			t.Errorf("%s: row %+v, run %s", name, j, outcome(t, db, c))
		}
		if _, err := runs.Fail(t.Context(), db.Pool, c.Claim, runs.Failure{Kind: "other"}, runs.Retry{MaxAttempts: 1}); !errors.Is(err, runs.ErrFenced) {
			t.Errorf("%s: its holder was told %v", name, err)
		}
		why := value[string](t, db, `SELECT actor || ' ' || reason || ' ' || (details->>'was') FROM ops.audit_log WHERE action = $1 AND target = $2`, name, k.String())
		if why != "op why running" {
			t.Errorf("%s: audited as %q", name, why)
		}
	}
	for name, k := range map[string]rail.Key{"none": newKey(), "idle": newKey()} {
		if name == "idle" {
			land(t, db, start(t, db, k))
		}
		if was, err := operator().Park(t.Context(), db.Pool, k); err != nil || was != "" {
			t.Errorf("park of %s: %q, %v", name, was, err)
		}
	}
}

func TestUnparkQueuesAtOnceWithItsAttemptsForgotten(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 1, rail.Standard)
	fail(t, db, start(t, db, k), 5*time.Minute, 1)
	age(t, db, k, 30*time.Second)
	if ok, err := operator().Unpark(t.Context(), db.Pool, k); err != nil || !ok {
		t.Fatalf("unpark: %v, %v", ok, err)
	}
	wants(t, db, k, job{Status: "queued", Requested: 2, Claimed: 2, Demands: 1, Priority: rail.Standard, Owed: 30, RebuildAge: never})
	if ok, err := operator().Unpark(t.Context(), db.Pool, k); err != nil || ok {
		t.Errorf("unpark of a queued row: %v, %v", ok, err)
	}
	if n := value[int](t, db, `SELECT count(*) FROM ops.audit_log WHERE action = 'matter.unpark'`); n != 1 {
		t.Errorf("%d audit rows of one unpark", n)
	}
}

func TestNothingIsDoneWithoutAReason(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	ask(t, db, k, 1, rail.Standard)
	mute := jobs.Actor{Name: "op"}
	_, parked := mute.Park(t.Context(), db.Pool, k)
	_, demanded := mute.Demand(t.Context(), db.Pool, []rail.Key{k}, rail.Bulk)
	_, purged := mute.Purge(t.Context(), db.Pool, k)
	for name, err := range map[string]error{"park": parked, "demand": demanded, "purge": purged} {
		if pg.Constraint(err) != "audit_needs_reason" {
			t.Errorf("%s without a reason: %v", name, err)
		}
	}
	if j := read(t, db, k); j.Status != "queued" || j.Requested != 1 {
		t.Errorf("refused and still done: %+v", j)
	}
}

func TestEpochBumpHandsEveryClaimBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	c := during(t, db, k, rail.Interactive)
	b, err := outbox.BumpEpoch(t.Context(), db.Pool, time.Now(), "op", "restored")
	if err != nil || b.Fenced != 1 || b.Epoch != 2 || outcome(t, db, c) != "fenced" {
		t.Errorf("bumped %+v, %v, run %s", b, err, outcome(t, db, c))
	}
	wants(t, db, k, job{Status: "queued", Requested: 5, Claimed: 2, Demands: 4, Priority: rail.Interactive, Owed: 107, RebuildAge: never})
	if got, err := jobs.Renew(t.Context(), db.Pool, []jobs.Claim{c.Claim}, lease); err != nil || got[0] != jobs.Fenced {
		t.Errorf("renewed %v, %v", got, err)
	}
	land(t, db, start(t, db, k))
	db.CheckLedger(t)
}

func TestRenewMovesTheLeaseAndNothingElse(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	c := start(t, db, k)
	age(t, db, k, 50*time.Second)
	before := read(t, db, k)
	if got, err := jobs.Renew(t.Context(), db.Pool, []jobs.Claim{c.Claim}, lease); err != nil || got[0] != jobs.Renewed {
		t.Fatalf("renewed %v, %v", got, err)
	}
	left := value[float64](t, db, `SELECT extract(epoch FROM lease_expires_at - clock_timestamp())::float8 FROM ops.matter_frame_jobs`)
	if left < 58 || left > 60 {
		t.Errorf("%.1f s of lease", left)
	}
	wants(t, db, k, before)
}
