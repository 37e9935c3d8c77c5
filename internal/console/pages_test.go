package console_test

import (
	"net/http"
	"strings"
	"testing"

	"briefrail/internal/console"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

func TestNowSaysWhatIsStaleAndWhy(t *testing.T) {
	r := newRig(t, nil)
	wants(t, r.get("/"), http.StatusOK, "Every Brief is current", "Nothing.", "No firm waits")
	parked := r.parked("the source is wrong")
	running := newKey()
	r.demand(running)
	r.claim(running, "worker-a")
	a := r.get("/")
	wants(t, a, http.StatusOK, "2 matters owe a build: 0 queued, 1 running, 1 parked", "parked by an operator: the source is wrong",
		"nothing, until somebody unparks it", "being built", "when its build ends", "never", "epoch 1", "Being looked at for the first time")
	for _, k := range []rail.Key{parked, running} {
		if !strings.Contains(a.body, `href="matter?of=`+strings.ReplaceAll(k.String(), "/", "%2f")+`"`) {
			t.Errorf("no link to %s in\n%s", k, a.body)
		}
	}
}

func TestMatterTellsItsStory(t *testing.T) {
	r := newRig(t, nil)
	k := r.zombie()
	a := r.get(of(k))
	wants(t, a, http.StatusOK, "idle", "requested 3, claimed 3, landed 3", "the Brief is current: nothing is owed", "until the next demand",
		"token 2 · worker-a", "token 3 · worker-b", "lost its lease", "woke, wrote: refused", "1 late write was refused",
		"worker-a woke and tried to write with token 2: refused", "Late write refused", "builder/2", "current")
	for _, part := range []string{`<svg role="img"`, `<desc id="strip-desc">`, `class="mark refusal"`, `class="bar landed"`, `class="bar expired"`, `class="thread"`} {
		if !strings.Contains(a.body, part) {
			t.Errorf("no %s in the drawing", part)
		}
	}
	if strings.Contains(a.body, "document text") || strings.Contains(a.body, `href="content`) {
		t.Error("content is shown though nobody asked for it")
	}
	if strings.Contains(a.body, `action="matter"`) {
		t.Error("acts are offered to somebody who has not logged in")
	}
	wants(t, r.get("/content?of="+k.String()), http.StatusBadRequest, "started without --show-content")
	wants(t, r.get(of(newKey())), http.StatusNotFound, "the ledger has no such matter")
	wants(t, r.get("/matter?of=nonsense"), http.StatusBadRequest, "of=:")
}

func TestContentIsShownWhenAskedFor(t *testing.T) {
	r := newRig(t, func(o *console.Options) { o.ShowContent = true })
	k := r.zombie()
	if a := r.get(of(k)); !strings.Contains(a.body, `href="content?of=`) {
		t.Error("no link to the content")
	}
	wants(t, r.get("/content?of="+k.String()), http.StatusOK, "Generation 3", "document text")
	wants(t, r.get("/content?of="+newKey().String()), http.StatusNotFound)
}

func TestFindLeadsToTheMatter(t *testing.T) {
	r := newRig(t, nil)
	one := newKey()
	two := rail.Key{Firm: rail.NewUUID(), Matter: one.Matter}
	r.demand(one)
	a := r.get("/find?matter=" + one.Matter.String())
	if a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "matter?of="+one.Firm.String()) {
		t.Errorf("status %d, to %q", a.status, a.header.Get("Location"))
	}
	r.demand(two)
	wants(t, r.get("/find?matter="+one.Matter.String()), http.StatusOK, "2 firms have a matter of this id", one.String(), two.String())
	wants(t, r.get("/find?matter="+rail.NewUUID().String()), http.StatusNotFound)
	wants(t, r.get("/find?matter=x"), http.StatusBadRequest, "that is no matter")
}

func TestRunsAreNarrowed(t *testing.T) {
	r := newRig(t, nil)
	k := r.zombie()
	other := newKey()
	r.demand(other)
	c := r.claim(other, "worker-c")
	if _, err := runs.Fail(t.Context(), r.Pool, c.Claim, runs.Failure{Kind: "timeout", Text: "it took too long"}, runs.Retry{MaxAttempts: 3}); err != nil {
		t.Fatal(err)
	}
	wants(t, r.get("/runs"), http.StatusOK, "worker-a", "worker-c", "timeout: it took too long", "Late write refused")
	if a := r.get("/runs"); strings.Contains(words(a), "worker-b") {
		t.Error("a run that landed is among the errors")
	}
	a := r.get("/runs?late=1&firm=" + k.Firm.String())
	wants(t, a, http.StatusOK, "worker-a")
	if strings.Contains(words(a), "worker-c") {
		t.Error("the filter lets through what it should not")
	}
	wants(t, r.get("/runs?outcome=landed&hours=1"), http.StatusOK, "worker-b")
	wants(t, r.get("/runs?worker=nobody"), http.StatusOK, "None.")
	for target, want := range map[string]string{
		"/runs?outcome=lost": "outcome=", "/runs?hours=-1": "hours=", "/runs?firm=x": "firm:", "/runs?colour=red": "which the page does not know",
		"/runs?hours=1&hours=2": "more than once", "/runs?worker=%ff": "is not text", "/runs?worker=%00": "is not text", "/runs?a;b": "cannot be read",
		"/runs?worker=" + strings.Repeat("x", 3000): "at most 2048",
	} {
		wants(t, r.get(target), http.StatusBadRequest, want, "Back to the start")
	}
}

func TestOutboxShowsFactsAndTheCanary(t *testing.T) {
	r := newRig(t, nil)
	k := newKey()
	r.exec(`INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, 'document.uploaded'), ($1, NULL, 'firm.renamed')`, k.Firm, k.Matter)
	r.exec(`INSERT INTO ops.outbox_failures (event_id, bucket, attempts, next_attempt_at, last_code, last_text, parked_at, parked_reason)
	  SELECT event_id, bucket, 9, now(), 'TooLarge', 'no', now(), 'the queue refuses it' FROM ops.domain_event_outbox WHERE matter_id IS NOT NULL`)
	wants(t, r.get("/outbox"), http.StatusOK, "document.uploaded", "firm.renamed", "(no matter)", "waits for the trigger", "TooLarge: the queue refuses it", "publishing is not required", "never")
	wants(t, r.get("/outbox?name=firm.renamed&verdict=none"), http.StatusOK, "firm.renamed")
	wants(t, r.get("/outbox?verdict=x"), http.StatusBadRequest, "verdict=")
	secret := r.login()
	wants(t, r.post("/outbox", "secret", secret, "why", "mended", "count", "2"), http.StatusConflict, "counted 2 parked facts, and now there are 1")
	if a := r.post("/outbox", "secret", secret, "why", "mended", "count", "1"); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, words(a))
	}
	wants(t, r.get("/outbox"), http.StatusOK, "To be sent again: 1 fact.")
	if n := value[int](r, `SELECT count(*) FROM ops.audit_log WHERE action = 'outbox.replay' AND actor = 'ada (console)' AND reason = 'mended'`); n != 1 {
		t.Errorf("%d audit rows", n)
	}
}

func TestTheExplorerIsOneOfThePages(t *testing.T) {
	r := newRig(t, nil)
	wants(t, r.get("/"), http.StatusOK, "Model")
	wants(t, r.get("/model/?model=router"), http.StatusOK, "explorer at /")
}
