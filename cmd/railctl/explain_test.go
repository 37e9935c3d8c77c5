package main

import (
	"strings"
	"testing"

	"briefrail/internal/audit"
	"briefrail/internal/runs"
)

// zombie plays the whole story: a fact, a claim whose lease runs out, a take-over
// that lands, and the late write of the first.
func (r *rig) zombie() (event string, key string) {
	k := newKey()
	id := r.fact(k, "document.uploaded")
	r.decide()
	a := r.claim(k)
	r.exec(`UPDATE ops.matter_frame_jobs SET claimed_at = claimed_at - interval '1 hour', lease_expires_at = clock_timestamp() - interval '1 second'`)
	b := r.claim(k)
	r.land(b, "b1")
	if err := runs.NoteRefused(r.t.Context(), r.Pool, a.Token.Run, true); err != nil {
		r.t.Fatal(err)
	}
	r.decide()
	return id.String(), k.String()
}

func TestExplainTellsTheStoryOfAZombie(t *testing.T) {
	r := newRig(t)
	_, k := r.zombie()
	out := plain(r.ok("explain", k))
	last := 0
	for _, want := range []string{
		"Brief  current", "State  idle", "Token  3, no live claim", "Now:\n", "What happened:\n",
		"fact  document.uploaded", "became demand, part of generation 1", "worker-a claimed token 2, attempt 1",
		"claimed token 3, attempt 2", "token 2 lost its lease", "of generation 3", "late write", "refused", "\nNext: nothing, until",
	} {
		i := strings.Index(out[last:], want)
		if i < 0 {
			t.Fatalf("no %q after position %d in\n%s", want, last, out)
		}
		last += i
	}
	e := decode[audit.Explanation](r, "explain.matter", "explain", k)
	if e.Next == "" || len(e.Timeline) < 7 || e.Current == nil {
		t.Errorf("explanation %+v", e)
	}
	if short := decode[audit.Explanation](r, "explain.matter", "explain", k, "--limit", "2"); len(short.Timeline) != 2 || !short.Truncated {
		t.Errorf("limited to %d entries, truncated %v", len(short.Timeline), short.Truncated)
	}
}

func TestExplainOfAnEvent(t *testing.T) {
	r := newRig(t)
	event, _ := r.zombie()
	out := r.ok("explain", event)
	for _, want := range []string{"document.uploaded", "demanded", "served by generation 3", "Next: nothing: the fact is in the Brief"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestExplainSaysWhatHappensNext(t *testing.T) {
	r := newRig(t)
	k := r.one()
	next := func() string {
		return decode[audit.Explanation](r, "explain.matter", "explain", k.Matter.String()).Next
	}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "a worker with a free slot claims it"},
		{func() { r.ok("dispatch", "pause", "--all", "--reason", "x", "--yes") }, "no claim until dispatch is resumed"},
		{func() { r.ok("dispatch", "resume", "--all", "--reason", "x"); r.claim(k) }, "lands token 2 when its build ends"},
		{func() { r.ok("matter", "demand", k.String(), "--reason", "x") }, "exactly one follow-up"},
		{func() { r.ok("matter", "cancel", k.String(), "--reason", "wrong") }, "until somebody unparks it"},
	} {
		step.do()
		if got := next(); !strings.Contains(got, step.want) {
			t.Errorf("next: %q, want %q", got, step.want)
		}
	}
}

// A producer may use the matter's own id for the fact that created it.
func TestExplainPrefersTheMatterOverAFactOfItsName(t *testing.T) {
	r := newRig(t)
	k := r.one()
	r.exec(`INSERT INTO ops.domain_event_outbox (event_id, firm_id, matter_id, event_name) VALUES ($2, $1, $2, 'matter.created')`, k.Firm, k.Matter)
	if e := decode[audit.Explanation](r, "explain.matter", "explain", k.Matter.String()); e.Key != k {
		t.Errorf("explained %s", e.Key)
	}
}
