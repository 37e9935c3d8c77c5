package audit_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/audit"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

func explain(t *testing.T, l *ledger, k rail.Key) audit.Explanation {
	t.Helper()
	e, err := audit.Explain(t.Context(), l.Pool, k, 0)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// kinds are the timeline's kinds, each with its outcome if it has one.
func kinds(e audit.Explanation) (out []string) {
	for _, n := range e.Timeline {
		k := string(n.Kind)
		if n.Outcome != "" {
			k += " " + n.Outcome
		}
		out = append(out, k)
	}
	return out
}

// wantSaid wants each phrase somewhere in the text.
func wantSaid(t *testing.T, text string, phrases ...string) {
	t.Helper()
	for _, p := range phrases {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not said in:\n%s", p, text)
		}
	}
}

// TestExplainTellsTheStoryOfAZombie is the tale of field reports: a worker stalls
// past its lease, another builds and lands, the first one wakes and is refused.
func TestExplainTellsTheStoryOfAZombie(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	k := newKey()
	l.fact(k, "document.uploaded")
	l.decide()
	a := l.claim("worker-a")
	l.exec(`UPDATE ops.matter_frame_jobs SET lease_expires_at = clock_timestamp() - interval '1 second'`)
	if e := explain(t, l, k); !strings.Contains(e.Next, "ran out") {
		t.Errorf("next: %s", e.Next)
	}
	got, err := runs.ClaimKey(t.Context(), l.Pool, k, rail.Standard, runs.ClaimOptions{Worker: "worker-b", Builder: "test", Lease: time.Minute})
	if err != nil || len(got) != 1 {
		t.Fatalf("take-over: %v, %v", got, err)
	}
	if err := l.land(got[0]); err != nil {
		t.Fatal(err)
	}
	if err := l.land(a); !errors.Is(err, runs.ErrFenced) {
		t.Fatalf("zombie: %v", err)
	}
	l.exec(`UPDATE ops.matter_frame_runs SET late_write_at = clock_timestamp() WHERE run_id = $1`, a.Token.Run)
	l.decide()

	e := explain(t, l, k)
	want := []string{"fact", "receipt demanded", "claim", "end expired", "claim", "frame", "end landed", "fact", "late_write", "receipt ignored"}
	got2 := kinds(e)
	// The taker's claim and the end of the one that it took over are one statement.
	if d := cmp.Diff(sorted(want), sorted(got2)); d != "" {
		t.Error(d)
	}
	text := ""
	for _, n := range e.Timeline {
		text += n.Text + "\n"
	}
	wantSaid(t, text, "fact document.uploaded", "became demand, part of generation 1",
		"worker-a claimed token 2, attempt 1", "token 2 lost its lease", "worker-b claimed token 3, attempt 2", "after run "+a.Token.Run.String(),
		"frame of generation 3 by builder test/1", "token 3 landed",
		"worker-a woke and tried to write with token 2: refused", "nothing was written", "the rail's own facts never trigger")
	wantSaid(t, strings.Join(e.Now, "\n"), "readers get generation 3", "nothing is owed")
	wantSaid(t, e.Next, "nothing, until the next demand")
	if e.Current == nil || e.Current.Generation != 3 || e.Job.Landed != 3 {
		t.Errorf("current %+v", e.Current)
	}
}

func sorted(in []string) map[string]int {
	n := map[string]int{}
	for _, s := range in {
		n[s]++
	}
	return n
}

func TestExplainSaysWhatHappensNext(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	k := newKey()
	by := jobs.Actor{Name: "kim", Reason: "court order"}
	retry := runs.Retry{MaxAttempts: 2, Backoff: time.Hour, BackoffMax: time.Hour}
	next := func(phrases ...string) audit.Explanation {
		t.Helper()
		e := explain(t, l, k)
		wantSaid(t, e.Next, phrases...)
		return e
	}
	e := next("nothing, until a fact becomes demand")
	wantSaid(t, strings.Join(e.Now, "\n"), "no job of this matter")

	l.fact(k, "document.uploaded")
	e = next("the trigger decides its facts")
	wantSaid(t, strings.Join(e.Now, "\n"), "1 fact awaits the trigger's verdict")
	l.decide()
	e = next("attempt 1", "no other matter of its firm goes before it")
	wantSaid(t, strings.Join(e.Now, "\n"), "no frame has landed yet", "1 demand is owed since")

	other := rail.Key{Firm: k.Firm, Matter: rail.NewUUID()}
	l.fact(other, "brief.requested")
	l.decide()
	next("1 other matter of its firm goes before it")
	c := l.claim("w")
	if c.Key != other {
		t.Fatal("interactive demand is not first")
	}

	if _, err := by.Pause(t.Context(), l.Pool, rail.UUID{}); err != nil {
		t.Fatal(err)
	}
	next("no claim until dispatch is resumed", "all firms paused by kim: court order")
	if _, err := by.Resume(t.Context(), l.Pool, rail.UUID{}); err != nil {
		t.Fatal(err)
	}

	c = l.claim("w")
	next("run "+c.Token.Run.String()+" lands token 2", "renews the lease")
	l.fact(k, "document.uploaded")
	l.decide()
	e = next("exactly one follow-up")
	wantSaid(t, strings.Join(e.Now, "\n"), "demand came during the build")
	if _, err := runs.Fail(t.Context(), l.Pool, c.Claim, runs.Failure{Kind: "timeout", Text: "slow panel"}, retry); err != nil {
		t.Fatal(err)
	}
	e = next("not before", "backoff after attempt 1", "attempt 2")
	wantSaid(t, strings.Join(e.Now, "\n"), "slow panel")

	l.exec(`UPDATE ops.matter_frame_jobs SET not_before = clock_timestamp() WHERE matter_id = $1`, k.Matter)
	c = l.claim("w")
	if _, err := runs.Fail(t.Context(), l.Pool, c.Claim, runs.Failure{Kind: "timeout", Text: "slow panel"}, retry); err != nil {
		t.Fatal(err)
	}
	next("parked after 2 attempts", "new demand gives it one more attempt")

	if _, err := by.Unpark(t.Context(), l.Pool, k); err != nil {
		t.Fatal(err)
	}
	if _, err := by.Park(t.Context(), l.Pool, k); err != nil {
		t.Fatal(err)
	}
	e = next("until somebody unparks it", "court order")
	text := ""
	for _, n := range e.Timeline {
		text += n.Text + "\n"
	}
	wantSaid(t, text, "matter.unpark", "matter.park", "dispatch.pause of all by kim: court order", "dispatch.resume of all")
}

func TestExplainSaysThatItSettles(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	k := newKey()
	if _, err := jobs.Demand(t.Context(), l.Pool, []jobs.Want{{Key: k, Count: 1, Priority: rail.Standard, Quiet: time.Minute}}, time.Hour); err != nil {
		t.Fatal(err)
	}
	wantSaid(t, explain(t, l, k).Next, "not before", "it settles")
}

func TestExplainIsBounded(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	k := newKey()
	for range 5 {
		l.build(k)
	}
	e, err := audit.Explain(t.Context(), l.Pool, k, 7)
	if err != nil {
		t.Fatal(err)
	}
	if !e.Truncated || len(e.Timeline) != 7 {
		t.Errorf("%d entries, truncated %v", len(e.Timeline), e.Truncated)
	}
	for i := 1; i < len(e.Timeline); i++ {
		if e.Timeline[i].At.Before(e.Timeline[i-1].At) {
			t.Errorf("entry %d is out of order", i)
		}
	}
	if e.Current == nil || e.Current.Generation != e.Job.Landed {
		t.Errorf("current %+v", e.Current)
	}
}

func TestExplainEventTellsWhatBecameOfAFact(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	k := newKey()
	event := func(id rail.UUID) audit.EventExplanation {
		t.Helper()
		e, err := audit.ExplainEvent(t.Context(), l.Pool, id)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	id := l.fact(k, "document.uploaded")
	wantSaid(t, event(id).Next, "the trigger decides it")
	l.decide()
	wantSaid(t, event(id).Next, "a worker with a free slot claims it")
	c := l.claim("w")
	late := l.fact(k, "document.uploaded")
	l.decide()
	if err := l.land(c); err != nil {
		t.Fatal(err)
	}
	e := event(id)
	wantSaid(t, e.Next, "the fact is in the Brief")
	if e.Served == nil || e.Served.RunID != c.Token.Run {
		t.Errorf("served by %+v", e.Served)
	}
	if e := event(late); e.Served != nil {
		t.Errorf("a fact that came during the build is served by %+v", e.Served)
	}
	ignored := l.fact(k, "note.added")
	firm := get[rail.UUID](l, `INSERT INTO ops.domain_event_outbox (firm_id, event_name) VALUES ($1, 'firm.created') RETURNING event_id`, k.Firm)
	l.decide()
	wantSaid(t, event(ignored).Next, "the verdict stands")
	wantSaid(t, strings.Join(event(ignored).Now, "\n"), "no rule of the trigger names note.added")
	wantSaid(t, strings.Join(event(firm).Now, "\n"), "a fact of the firm alone")
	if e := event(firm); e.Matter != nil || e.Fact.Verdict != "ignored" {
		t.Errorf("fact of a firm: %+v", e)
	}
	if _, err := audit.ExplainEvent(t.Context(), l.Pool, rail.NewUUID()); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("unknown event: %v", err)
	}
}
