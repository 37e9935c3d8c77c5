package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/rail"
)

// send puts bodies into the queue as a stranger would: with a plain call.
func (w *way) send(bodies ...string) {
	w.r.t.Helper()
	for _, b := range bodies {
		in, err := json.Marshal(map[string]string{"QueueUrl": w.places.Queue, "MessageBody": b})
		if err != nil {
			w.r.t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(w.r.t.Context(), http.MethodPost, w.url, bytes.NewReader(in))
		if err != nil {
			w.r.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-amz-json-1.0")
		req.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
		resp, err := new(http.Client).Do(req)
		if err != nil {
			w.r.t.Fatal(err)
		}
		_ = resp.Body.Close() // nothing of it is read
		if resp.StatusCode != http.StatusOK {
			w.r.t.Fatalf("send: %s", resp.Status)
		}
	}
}

// Each dead letter has the ledger's verdict; no body is shown, and all stay.
func TestDeadLettersAreJudgedAndLeft(t *testing.T) {
	r := newRig(t)
	w := newWay(r, awsfake.Layout{Receives: 1})
	decided, waiting := newKey(), newKey()
	first := r.fact(decided, "document.uploaded")
	r.decide()
	second := r.fact(waiting, "document.uploaded")
	tell := func(event rail.UUID, k rail.Key) string {
		return string(nudge.Nudge{Event: event, Firm: k.Firm, Matter: k.Matter, Name: "document.uploaded"}.Encode())
	}
	w.bury("the Hooli file", tell(first, decided), tell(second, waiting), tell(second, newKey()), unknownNudge())

	got := map[string]int{}
	for _, l := range decode[[]deadLetter](r, "dlq.list", "dlq", "list") {
		got[l.Verdict]++
		if l.Message == "" || l.Receives < 1 || l.Sent.IsZero() || (l.Event == nil) != (l.Verdict == "malformed") || (l.Preview == "") != (l.Reason == "") {
			t.Errorf("%+v", l)
		}
	}
	want := map[string]int{"malformed": 1, "demanded": 1, "undecided": 1, "mismatch": 1, "unknown": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if out := r.ok("dlq", "list"); strings.Contains(out, "Hooli") || !strings.Contains(out, "malformed: not_json") {
		t.Errorf("%s", out)
	}
	if n := len(decode[[]deadLetter](r, "dlq.list", "dlq", "list", "--limit", "2")); n != 2 {
		t.Errorf("%d letters with --limit 2", n)
	}
	if visible, hidden, _ := w.Depth("brief-dead"); visible != 5 || hidden != 0 {
		t.Errorf("%d visible and %d in hand afterwards, want 5 and 0", visible, hidden)
	}
}

func TestRedrive(t *testing.T) {
	r := newRig(t)
	w := newWay(r, awsfake.Layout{Receives: 1})
	w.bury(unknownNudge(), unknownNudge())
	if got := decode[redriven](r, "dlq.redrive", "dlq", "redrive", "--dry-run"); got.Letters != 2 || !got.DryRun || w.Calls("StartMessageMoveTask") != 0 {
		t.Errorf("dry run: %+v", got)
	}
	if got := r.at("n\n", "dlq", "redrive", "--reason", "x"); got.code != exitError || !strings.Contains(got.err, "send about 2 letter(s) back") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	if got := decode[redriven](r, "dlq.redrive", "dlq", "redrive", "--per-second", "50", "--yes", "--reason", "mended"); got.Moved != 2 || got.Status != "COMPLETED" {
		t.Errorf("%+v", got)
	}
	if n, _, _ := w.Depth("brief"); n != 2 {
		t.Errorf("%d messages are back", n)
	}
	const sql = `SELECT action || ' ' || reason || ' ' || (details->>'letters') || ' ' || (details->>'per_second') || ' ' || (target = $1) FROM ops.audit_log`
	if got := value[string](r, sql, w.places.DeadLetters); got != "dlq.redrive mended 2 50 true" {
		t.Errorf("audit row %q", got)
	}
}

// An earlier move that has ended is not taken for the one that was just asked for.
func TestRedriveWaitsForItsOwnMove(t *testing.T) {
	t.Parallel()
	w := newWay(&rig{t: t}, awsfake.Layout{Receives: 1})
	w.bury("x")
	q, err := nudge.NewQueue(t.Context(), nudge.QueueOptions{Queue: w.places.Queue, Endpoint: w.url})
	if err != nil {
		t.Fatal(err)
	}
	d, err := q.DeadLetters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Redrive(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	m, err := latest(t.Context(), d)
	if err != nil || m.Status != "COMPLETED" {
		t.Fatalf("%+v, %v", m, err)
	}
	var out redriven
	s := &session{app: &app{stderr: &bytes.Buffer{}}}
	err = s.awaitRedrive(t.Context(), d, m.Started, time.Millisecond, &out)
	if code := s.code(t.Context(), err); code != exitTimeout || out.Moved != 0 {
		t.Errorf("exit %d, %+v: %v", code, out, err)
	}
}

// What SQS refuses is in the log as asked for and as refused.
func TestRefusedRedrive(t *testing.T) {
	r := newRig(t)
	w := newWay(r, awsfake.Layout{})
	w.Always("StartMessageMoveTask", 1, awsfake.Denied())
	if got := r.ctl("dlq", "redrive", "--yes", "--reason", "mended"); got.code != exitError || !strings.Contains(got.err, "not started") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	if got := value[string](r, `SELECT string_agg(action || coalesce(details->>'code', ''), ' ' ORDER BY id) FROM ops.audit_log`); got != "dlq.redrive dlq.redrive_failedAccessDeniedException" {
		t.Errorf("audit rows %q", got)
	}
}

func TestDeadLettersNeedAQueue(t *testing.T) {
	r := newRig(t)
	for _, args := range [][]string{{"list"}, {"redrive", "--dry-run"}} {
		if got := r.ctl(append([]string{"dlq"}, args...)...); got.code != exitUsage || !strings.Contains(got.err, "RAIL_TRIGGER_QUEUE_URL") {
			t.Errorf("%v: exit %d: %s", args, got.code, got.err)
		}
	}
	w := newWay(r, awsfake.Layout{})
	for _, args := range [][]string{{"list", "--limit", "0"}, {"redrive", "--per-second", "501", "--dry-run"}} {
		if got := r.ctl(append([]string{"dlq"}, args...)...); got.code != exitUsage {
			t.Errorf("%v: exit %d: %s", args, got.code, got.err)
		}
	}
	r.env = append(r.env[:len(r.env)-1], "RAIL_TRIGGER_QUEUE_URL="+w.places.DeadLetters)
	if got := r.ctl("dlq", "list"); got.code != exitNotFound {
		t.Errorf("a queue without dead letters: exit %d: %s", got.code, got.err)
	}
}
