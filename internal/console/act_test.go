package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"briefrail/internal/rail"
)

// act sends one deed.
func (r *rig) act(secret string, k rail.Key, verb string) answer {
	r.t.Helper()
	return r.post("/matter", "secret", secret, "of", k.String(), "verb", verb, "why", "because of "+verb)
}

func TestActsChangeTheMatterAndTheAuditLog(t *testing.T) {
	r := newRig(t, nil)
	k := newKey()
	secret := r.login()
	for _, step := range []struct{ verb, status, said string }{
		{"demand", "queued", "A build was demanded: because of demand."},
		{"park", "parked", "Parked: because of park."},
		{"unpark", "queued", "Unparked: because of unpark."},
		{"cancel", "parked", "The build was cancelled"},
	} {
		if step.verb == "cancel" {
			r.claim(k, "worker-a")
		}
		a := r.act(secret, k, step.verb)
		if a.status != http.StatusSeeOther || a.header.Get("Location") != "matter?of="+url.QueryEscape(k.String()) {
			t.Fatalf("%s: %d to %q: %s", step.verb, a.status, a.header.Get("Location"), words(a))
		}
		if got := r.status(k); got != step.status {
			t.Errorf("%s leaves it %s, want %s", step.verb, got, step.status)
		}
		wants(t, r.get(of(k)), http.StatusOK, step.said, step.status)
		if a := r.get(of(k)); strings.Contains(words(a), "status "+step.said) {
			t.Error("what was said is said again")
		}
		n := value[int](r, `SELECT count(*) FROM ops.audit_log WHERE action = $1 AND actor = 'ada (console)' AND reason = $2 AND target = $3`, "matter."+step.verb, "because of "+step.verb, k.String())
		if n != 1 {
			t.Errorf("%s: %d audit rows", step.verb, n)
		}
	}
	wants(t, r.act(secret, k, "park"), http.StatusConflict, "neither queued nor running")
	wants(t, r.act(secret, newKey(), "unpark"), http.StatusConflict, "not parked")
	wants(t, r.act(secret, k, "purge"), http.StatusBadRequest, "verb=")
	wants(t, r.post("/matter", "secret", secret, "of", "x", "verb", "park", "why", "y"), http.StatusBadRequest, "of=:")
	if n := value[int](r, `SELECT count(*) FROM ops.audit_log`); n != 4 {
		t.Errorf("%d audit rows, want 4: a refusal leaves none", n)
	}
}

func TestUnparkManyTouchesWhatWasCounted(t *testing.T) {
	r := newRig(t, nil)
	var wrongs []rail.Key
	for range 3 {
		wrongs = append(wrongs, r.parked("Wrong source"))
	}
	other := r.parked("a quiet evening")
	secret := r.login()
	wants(t, r.get("/parked"), http.StatusOK, "4 matters are parked", "Wrong source", "a quiet evening")
	wants(t, r.get("/parked?reason=wrong&preview=1"), http.StatusOK, "Unpark 3 matters?", "with “ wrong ” in the reason", "Yes, unpark 3", "3 matters are parked that the filter names")
	wants(t, r.get("/parked?hours=1&preview=1"), http.StatusOK, "Unpark 0 matters?", "Nothing is parked that the filter names")
	late := r.parked("Wrong source")
	form := []string{"secret", secret, "reason", "wrong", "by", "operator", "hours", "0", "why", "mended", "count"}
	wants(t, r.post("/parked", append(form, "3")...), http.StatusConflict, "counted 3, and now there are 4")
	wants(t, r.post("/parked", append(form, "x")...), http.StatusConflict, "look again")
	wants(t, r.post("/parked", "secret", secret, "reason", "wrong", "count", "4"), http.StatusBadRequest, "say why")
	r.untouchedSince(5)
	if a := r.post("/parked", append(form, "4")...); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, words(a))
	}
	wants(t, r.get("/parked"), http.StatusOK, "Unparked 4 matters: mended.", "1 matter is parked", "a quiet evening")
	for _, k := range append(wrongs, late) {
		if r.status(k) != "queued" {
			t.Errorf("%s is %s", k, r.status(k))
		}
	}
	if r.status(other) != "parked" {
		t.Error("a matter that the filter does not name was unparked")
	}
	r.untouchedSince(9)
	for target, want := range map[string]string{"/parked?by=x": "by=", "/parked?firm=x": "firm:", "/parked?hours=x": "hours="} {
		wants(t, r.get(target), http.StatusBadRequest, want)
	}
}

// untouchedSince fails the test unless the audit log has so many rows.
func (r *rig) untouchedSince(n int) {
	r.t.Helper()
	if got := value[int](r, `SELECT count(*) FROM ops.audit_log`); got != n {
		r.t.Errorf("%d audit rows, want %d", got, n)
	}
}

func TestManyAreUnparkedAPageATransaction(t *testing.T) {
	r := newRig(t, nil)
	const n = 450
	r.exec(`INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status, requested_generation, demands_owed, owed_since, queued_at, not_before)
	  SELECT gen_random_uuid(), gen_random_uuid(), 'queued', 1, 1, now(), now(), now() FROM generate_series(1, $1::int)`, n)
	r.exec(`SELECT ops.park_matter(firm_id, matter_id, 'park', 'grace', 'a flood') FROM ops.matter_frame_jobs`)
	secret := r.login()
	wants(t, r.get("/parked?preview=1"), http.StatusOK, fmt.Sprintf("Unpark %d matters?", n), "The 100 that have been parked longest are shown")
	if a := r.post("/parked", "secret", secret, "why", "the flood is over", "count", fmt.Sprint(n)); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, words(a))
	}
	if left := value[int](r, `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'parked'`); left != 0 {
		t.Errorf("%d are still parked", left)
	}
	if rows := value[int](r, `SELECT count(*) FROM ops.audit_log WHERE action = 'matter.unpark' AND reason = 'the flood is over'`); rows != n {
		t.Errorf("%d audit rows, want %d", rows, n)
	}
}

func TestDispatchIsPausedAfterAPreview(t *testing.T) {
	r := newRig(t, nil)
	k := newKey()
	r.demand(k)
	secret := r.login()
	firm := k.Firm.String()
	wants(t, r.get("/dispatch?verb=pause&scope="+firm), http.StatusOK, "1 queued matter would be held back, 0 running builds go on")
	wants(t, r.get("/dispatch?verb=pause&scope=all"), http.StatusOK, "dispatch of all firms?", "1 queued matter")
	wants(t, r.get("/dispatch?verb=pause&scope="+rail.NewUUID().String()), http.StatusOK, "has never seen this firm")
	for target, want := range map[string]string{"/dispatch?verb=x&scope=all": "verb=", "/dispatch?verb=pause": "name a firm, or all", "/dispatch?verb=pause&scope=x": "firm:"} {
		wants(t, r.get(target), http.StatusBadRequest, want)
	}
	for _, scope := range []string{firm, "all"} {
		form := []string{"secret", secret, "scope", scope, "why", "maintenance", "verb"}
		if a := r.post("/dispatch", append(form, "pause")...); a.status != http.StatusSeeOther {
			t.Fatalf("%d %s", a.status, words(a))
		}
		wants(t, r.post("/dispatch", append(form, "pause")...), http.StatusConflict, "it is so already")
		wants(t, r.get("/dispatch"), http.StatusOK, "paused by ada (console)", "maintenance")
		wants(t, r.get(of(k)), http.StatusOK, "no claim until dispatch is resumed")
		if a := r.post("/dispatch", append(form, "resume")...); a.status != http.StatusSeeOther {
			t.Fatalf("%d %s", a.status, words(a))
		}
		wants(t, r.post("/dispatch", append(form, "resume")...), http.StatusConflict, "it is so already")
	}
	r.untouchedSince(4)
}
