package api_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"briefrail/internal/authority"
	"briefrail/internal/authority/api"
	"briefrail/internal/rail"
)

// announces holds the headers of an answer to what it should be.
func (a reply) announces(t *testing.T, epoch, revision int64) {
	t.Helper()
	if e, r := a.header.Get(api.EpochHeader), a.header.Get(api.RevisionHeader); e != strconv.FormatInt(epoch, 10) || r != strconv.FormatInt(revision, 10) {
		t.Errorf("announces epoch %q and revision %q, want %d and %d", e, r, epoch, revision)
	}
}

func TestAcceptedOnceAndTheStoredAnswerAfterwards(t *testing.T) {
	t.Parallel()
	r, i := newRig(t), anIntent()
	first := r.post(t, forFirm, i)
	if first.status != http.StatusAccepted || first.said.Outcome != "accepted" || first.said.Replayed || first.said.IntentID != i.ID ||
		first.said.PayloadDigest != i.Digest || first.said.DecidedAt == nil || string(first.said.Result) != `{"requested_generation":1}` {
		t.Fatalf("got %d: %s", first.status, first.raw)
	}
	first.announces(t, 1, 0)
	for _, token := range []string{forFirm, forAll} {
		again := r.post(t, token, i)
		if again.status != http.StatusAccepted || !again.said.Replayed || again.said.ResultDigest != first.said.ResultDigest || string(again.said.Result) != string(first.said.Result) {
			t.Errorf("again: %d: %s, first %s", again.status, again.raw, first.raw)
		}
		receipt := r.get(t, token, "/v1/intents/"+i.ID)
		if receipt.status != http.StatusOK || receipt.said.Outcome != "accepted" || receipt.said.ResultDigest != first.said.ResultDigest || receipt.said.Matter != r.key.Matter {
			t.Errorf("receipt: %d: %s", receipt.status, receipt.raw)
		}
		receipt.announces(t, 1, 0)
	}
	r.executes(t, 1)
}

// Whoever presses a button often, and whoever's network repeats, gets one execution.
func TestTheSameIntentManyTimesAtOnce(t *testing.T) {
	t.Parallel()
	r, i := newRig(t), anIntent()
	const times = 64
	got := make([]reply, times)
	var all sync.WaitGroup
	for n := range times {
		all.Go(func() {
			for range 1000 { // there are fewer places at the database than requests
				if got[n] = r.post(t, forFirm, i); got[n].status != http.StatusServiceUnavailable {
					return
				}
			}
		})
	}
	all.Wait()
	fresh := 0
	for _, a := range got {
		if a.status != http.StatusAccepted || a.said.ResultDigest != got[0].said.ResultDigest {
			t.Errorf("got %d: %s", a.status, a.raw)
		}
		if !a.said.Replayed {
			fresh++
		}
	}
	if n := r.executed(t); n != 1 || fresh != 1 {
		t.Errorf("executed %d times, said to be the first %d times", n, fresh)
	}
}

func TestTheDocumentChanged(t *testing.T) {
	t.Parallel()
	r, i := newRig(t), anIntent()
	r.land(t)
	was, before := int64(0), r.executed(t)
	i.Expected = &was
	for range 2 {
		a := r.post(t, forFirm, i)
		a.problem(t, http.StatusConflict, "revision-conflict")
		a.announces(t, 1, 1)
		if a.fault.Expected == nil || *a.fault.Expected != 0 || a.fault.Revision == nil || *a.fault.Revision != 1 || a.fault.Receipt == nil ||
			a.fault.Receipt.Outcome != "refused" || a.fault.IntentID != i.ID {
			t.Errorf("got %s", a.raw)
		}
	}
	if receipt := r.get(t, forFirm, "/v1/intents/"+i.ID); receipt.status != http.StatusOK || receipt.said.Outcome != "refused" {
		t.Errorf("receipt: %s", receipt.raw)
	}
	is, other := int64(1), anIntent()
	other.Expected = &is
	if a := r.post(t, forFirm, other); a.status != http.StatusAccepted {
		t.Errorf("with the revision that it has: %s", a.raw)
	}
	r.executes(t, before+1)
}

func TestAnotherDigest(t *testing.T) {
	t.Parallel()
	r, i := newRig(t), anIntent()
	r.post(t, forFirm, i)
	other := i
	other.Digest = strings.Repeat("cd", 32)
	a := r.post(t, forFirm, other)
	a.problem(t, http.StatusUnprocessableEntity, "intent-differs")
	if a.fault.Given != other.Digest || a.fault.Recorded != i.Digest || !slices.Equal(a.fault.Differs, []string{"payload_digest"}) {
		t.Errorf("got %s", a.raw)
	}
	later, seen := i, int64(7)
	later.Expected = &seen
	a = r.post(t, forFirm, later)
	a.problem(t, http.StatusUnprocessableEntity, "intent-differs")
	if !slices.Equal(a.fault.Differs, []string{"expected_revision"}) {
		t.Errorf("got %s", a.raw)
	}
	// what another firm has under the id is not told to this one
	path := strings.Replace(r.path("intents"), r.key.Firm.String(), r.other.String(), 1)
	a = r.postTo(t, forOther, path, other)
	a.problem(t, http.StatusUnprocessableEntity, "intent-differs")
	if a.fault.Recorded != "" || a.fault.Differs != nil || a.fault.Receipt != nil || a.fault.Epoch != 0 || strings.Contains(a.raw, i.Digest) || strings.Contains(a.raw, r.key.Firm.String()) {
		t.Errorf("tells another firm's intent: %s", a.raw)
	}
	r.executes(t, 1)
}

// Who decides is told as it was when the intent was judged. Had it moved here since, the
// answer would be that the same intent under the same epoch is of no use, and it is.
func TestAuthorityMovesBehindTheVerdict(t *testing.T) {
	t.Parallel()
	r, i := besideOld(t, "rail"), anIntent()
	r.exec(t, `CREATE OR REPLACE FUNCTION ops.submit_intent(id uuid, firm uuid, matter uuid, in_kind text, expected bigint, in_digest bytea, in_epoch bigint)
		RETURNS ops.intent_answer LANGUAGE sql AS $$ SELECT 'epoch_changed', NULL::boolean, 7::bigint, 'old-house', 'http://old.example', NULL::bigint, NULL::jsonb, NULL::bytea,
		NULL::bytea, NULL::timestamptz, NULL::interval, firm, matter $$`)
	a := r.post(t, forFirm, i)
	a.problem(t, http.StatusConflict, "authority-epoch-changed")
	if f := a.fault; f.Epoch != 7 || f.Writer != "old-house" || f.Endpoint != "http://old.example" {
		t.Errorf("got %s", a.raw)
	}
}

// Authority elsewhere, and authority later, are one answer, and no revision conflict.
func TestAuthorityMoved(t *testing.T) {
	t.Parallel()
	r, i := besideOld(t, "rail"), anIntent()
	r.land(t)
	kept := anIntent() // decided before, and to be found afterwards
	if a := r.post(t, forFirm, kept); a.status != http.StatusAccepted {
		t.Fatal(a.raw)
	}
	r.cross(t, "old-house")
	one, wrong := int64(1), int64(7)
	i.Epoch, i.Expected = &one, &wrong // a wrong revision too: authority comes first
	a := r.post(t, forFirm, i)
	a.problem(t, http.StatusConflict, "authority-epoch-changed")
	a.announces(t, 2, 1)
	if f := a.fault; f.Epoch != 2 || f.Writer != "old-house" || f.Endpoint != "http://old.example" || f.LookUp != r.path("authority") || f.Receipt != nil || f.IntentID != i.ID {
		t.Errorf("got %s", a.raw)
	}
	if n := r.number(t, `SELECT count(*) FROM ops.fence_evidence WHERE kind = 'stale_epoch' AND scope = $1`, r.scope(t)); n != 1 {
		t.Errorf("evidence of one stale epoch: %d rows", n)
	}
	if a := r.post(t, forFirm, kept); a.status != http.StatusAccepted || !a.said.Replayed || a.said.Epoch != 1 {
		t.Errorf("the stored answer of an older epoch: %d %s", a.status, a.raw)
	}
	r.cross(t, "rail")
	a = r.post(t, forFirm, i)
	a.problem(t, http.StatusConflict, "authority-epoch-changed")
	if f := a.fault; f.Epoch != 3 || f.Writer != "rail" || f.Endpoint != "" {
		t.Errorf("got %s", a.raw)
	}
	three := int64(3)
	i.Epoch, i.Expected = &three, &one
	if a := r.post(t, forFirm, i); a.status != http.StatusAccepted || a.said.Epoch != 3 {
		t.Errorf("under the epoch that is current: %s", a.raw)
	}
}

// A refusal of an old epoch is known, and may be judged again under a later one.
func TestARefusedIntentIsJudgedAgainUnderALaterEpoch(t *testing.T) {
	t.Parallel()
	r, i := besideOld(t, "rail"), anIntent()
	r.land(t)
	two, one := int64(2), int64(1)
	i.Expected, i.Epoch = &two, &one
	r.post(t, forFirm, i).problem(t, http.StatusConflict, "revision-conflict")
	r.cross(t, "old-house")
	r.cross(t, "rail")
	a := r.post(t, forFirm, i)
	a.problem(t, http.StatusConflict, "authority-epoch-changed")
	if a.fault.Receipt == nil || a.fault.Receipt.Outcome != "refused" || a.fault.Receipt.Epoch != 1 {
		t.Errorf("the known receipt: %s", a.raw)
	}
	r.land(t) // now it is what was expected
	three := int64(3)
	i.Epoch = &three
	if a := r.post(t, forFirm, i); a.status != http.StatusAccepted || a.said.Epoch != 3 || a.said.Replayed {
		t.Errorf("judged again: %s", a.raw)
	}
}

func TestClosing(t *testing.T) {
	t.Parallel()
	r, i := besideOld(t, "rail"), anIntent()
	change := r.close(t, "old-house")
	a := r.post(t, forFirm, i)
	a.problem(t, http.StatusServiceUnavailable, "authority-closing")
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 || a.fault.RetryMS < 1 || a.fault.IntentID != i.ID || a.fault.Epoch != 1 {
		t.Errorf("got %s, Retry-After %q", a.raw, a.header.Get("Retry-After"))
	}
	r.get(t, forFirm, "/v1/intents/"+i.ID).problem(t, http.StatusNotFound, "no-receipt")
	where := r.get(t, forFirm, r.path("authority"))
	if !strings.Contains(where.raw, `"state":"closing"`) || !strings.Contains(where.raw, `"retry_after_ms"`) || where.header.Get("Retry-After") == "" {
		t.Errorf("authority while closing: %s", where.raw)
	}
	r.verb(t, r.control.Abort, change)
	if a := r.post(t, forFirm, i); a.status != http.StatusAccepted || a.said.Epoch != 1 {
		t.Errorf("after the abort: %s", a.raw)
	}
}

// A path is retired where the rail has left for good, and where an old writer's address
// leads here after its retirement.
func TestRetired(t *testing.T) {
	t.Parallel()
	r, i := newRig(t), anIntent()
	r.old(t, "old-house", "http://old.example")
	r.old(t, "older", "")
	r.fence(t, "rail")
	change := r.cross(t, "old-house")
	named := "/v1/writers/%/firms/" + strings.TrimPrefix(r.path("intents"), "/v1/firms/")
	by := func(writer string) reply {
		return r.postTo(t, forFirm, strings.Replace(named, "%", writer, 1), i)
	}
	r.post(t, forFirm, i).problem(t, http.StatusConflict, "authority-epoch-changed")
	by("older").problem(t, http.StatusConflict, "authority-epoch-changed")
	by("nobody").problem(t, http.StatusNotFound, "unknown-writer")
	r.verb(t, r.control.Retire, change)
	r.exec(t, `SELECT ops.retire_writer('older', 'test', 'test')`)
	for _, a := range []reply{r.post(t, forFirm, i), by("older"), by("rail")} {
		a.problem(t, http.StatusGone, "authority-retired")
		a.announces(t, 2, 0)
		if a.fault.Epoch != 2 || a.fault.Endpoint != "http://old.example" || a.fault.LookUp != r.path("authority") {
			t.Errorf("got %s", a.raw)
		}
	}
	if n := r.number(t, `SELECT count(DISTINCT writer) FROM ops.fence_evidence WHERE kind = 'retired_path' AND scope = $1`, r.scope(t)); n < 1 {
		t.Error("no evidence of the retired path")
	}
	r.cross(t, "rail")
	if a := by("rail"); a.status != http.StatusAccepted || a.said.Epoch != 3 {
		t.Errorf("the rail by name, once it is back: %s", a.raw)
	}
	r.executes(t, 1)
}

// What an old writer could not say blocks, and is not sent again.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	r, i := besideOld(t, "old-house"), anIntent()
	r.imported(t, i, "unknown")
	a := r.post(t, forFirm, i)
	a.problem(t, http.StatusConflict, "outcome-unknown")
	if a.fault.Receipt == nil || a.fault.Receipt.Outcome != "unknown" || a.fault.RetryMS < 1 {
		t.Errorf("got %s", a.raw)
	}
	if receipt := r.get(t, forFirm, "/v1/intents/"+i.ID); receipt.said.Outcome != "unknown" || receipt.said.Result != nil {
		t.Errorf("receipt: %s", receipt.raw)
	}
	r.imported(t, i, "accepted")
	if a := r.post(t, forFirm, i); a.status != http.StatusAccepted || a.said.Writer != "old-house" || !a.said.Replayed {
		t.Errorf("once it is known: %s", a.raw)
	}
	other := anIntent()
	r.imported(t, other, "refused")
	r.post(t, forFirm, other).problem(t, http.StatusConflict, "refused")
	r.executes(t, 0)
}

// imported is what the importer of the old writer brings of an intent.
func (r *rig) imported(t *testing.T, i asked, outcome string) {
	t.Helper()
	conn, err := r.db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	id, err := rail.ParseUUID(i.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SET ROLE rail_readonly`); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = conn.Exec(t.Context(), `RESET ROLE`) }()
	in := authority.Intent{ID: id, Key: r.key, Kind: i.Kind, Digest: digestOf(t, i)}
	if err := authority.ImportIntent(t.Context(), conn, in, outcome, nil, "a test"); err != nil {
		t.Fatal(err)
	}
}
