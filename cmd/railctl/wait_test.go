package main

import (
	"strings"
	"testing"
	"time"
)

func TestWaitEndsWhenTheBriefIsCurrent(t *testing.T) {
	r := newRig(t)
	k := r.one()
	c := r.claim(k)
	ended := make(chan answer, 1)
	go func() { ended <- call(t, r.env, "wait", k.String(), "--timeout", "30s", "-o", "json") }()
	// landing once the wait is connected: it has to be seen by a later look
	waitFor(t, func() bool {
		return value[int](r, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'railctl %'`) > 0
	})
	r.land(c, "b1")
	got := <-ended
	if got.code != exitOK || !strings.Contains(got.out, `"state": "current"`) || !strings.Contains(got.out, `"landed_generation": 2`) {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		if cond() {
			return
		}
		<-tick.C
	}
	t.Fatal("did not happen within 10 s")
}

func TestWaitTellsAParkedMatter(t *testing.T) {
	r := newRig(t)
	k := r.one()
	r.ok("matter", "park", k.String(), "--reason", "x")
	got := r.ctl("wait", k.String())
	if got.code != exitRefused || !strings.Contains(got.out, "parked") || !strings.Contains(got.err, "railctl explain") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
}

// A fact that the trigger has not seen yet is demand on its way.
func TestWaitDoesNotOvertakeTheTrigger(t *testing.T) {
	r := newRig(t)
	k := r.landed("b1")
	r.fact(k, "document.uploaded")
	fresh := newKey()
	r.fact(fresh, "document.uploaded")
	for _, m := range []string{k.String(), fresh.String()} {
		if got := r.ctl("wait", m, "--timeout", "20ms"); got.code != exitTimeout || !strings.Contains(got.out, "undecided") {
			t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
		}
	}
}
