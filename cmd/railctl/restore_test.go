package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/rail"
)

// restoreCheck asks without minding the exit code, which it returns.
func (r *rig) restoreCheck() (code int, data restored) {
	r.t.Helper()
	got := r.ctl("restore-check", "-o", "json")
	var e struct{ Data *restored }
	e.Data = &data
	if err := json.Unmarshal([]byte(got.out), &e); err != nil {
		r.t.Fatalf("%v in\n%s%s", err, got.out, got.err)
	}
	return got.code, data
}

// served takes a fact through to its Brief, and the Brief's own fact.
func (r *rig) served() {
	r.t.Helper()
	k := newKey()
	r.fact(k, "document.uploaded")
	r.decide()
	r.land(r.claim(k), "b1")
	r.decide()
}

func TestRestoreCheckOfASoundLedger(t *testing.T) {
	r := newRig(t)
	r.served()
	live := r.one()
	r.claim(live)
	code, got := r.restoreCheck()
	if code != exitOK || got.Next.Due || got.Changed || got.Live != 1 || got.Owed != 1 || got.Behind != 0 || got.Lost != nil {
		t.Errorf("exit %d: %+v", code, got)
	}
	if got.Fact == nil || got.Receipt == nil || got.Run == nil || got.Frame == nil || got.Ends.Before(*got.Frame) || got.Ends.Sub(*got.Since) != 5*time.Minute {
		t.Errorf("newest rows: %+v", got)
	}
	if out := r.ok("restore-check"); !strings.Contains(out, "Next: nothing is due") || !strings.Contains(out, "trigger.queue_url is not set") {
		t.Errorf("%s", out)
	}
}

// On another server it says to raise the epoch and since when, and does not take for
// old what was written after the server became another.
func TestRestoreCheckOnAnotherServer(t *testing.T) {
	r := newRig(t)
	r.fact(newKey(), "document.uploaded")
	r.exec(`UPDATE ops.ledger SET system_identifier = system_identifier + 1`)
	code, got := r.restoreCheck()
	if code != exitUnhealthy || !got.Next.Due || !got.Changed || got.Fact != nil {
		t.Errorf("exit %d: %+v", code, got)
	}
	if !strings.HasPrefix(got.Next.Command, "railctl epoch bump --since ") {
		t.Errorf("next: %+v", got.Next)
	}
	if got := r.ctl("restore-check"); got.code != exitUnhealthy || !strings.Contains(got.out, "railctl dispatch pause --all") {
		t.Errorf("exit %d: %s", got.code, got.out)
	}
	r.ok(append(commands(got.Next.Command)[0], "--yes")...)
	r.decide()
	if code, got := r.restoreCheck(); code != exitOK || got.Changed || got.Ledger.Epoch != 2 {
		t.Errorf("after the bump: exit %d: %+v", code, got)
	}
}

// A dead nudge whose fact is not there names its matter until that was demanded.
func TestRestoreCheckFindsLostFacts(t *testing.T) {
	r := newRig(t)
	w := newWay(r, awsfake.Layout{Receives: 1})
	lost, kept := newKey(), newKey()
	there := r.fact(kept, "document.uploaded")
	r.decide()
	tell := func(event rail.UUID, k rail.Key) string {
		return string(nudge.Nudge{Event: event, Firm: k.Firm, Matter: k.Matter, Name: "document.uploaded"}.Encode())
	}
	w.bury(tell(rail.NewUUID(), lost), tell(rail.NewUUID(), lost), tell(there, kept), "no nudge")
	code, got := r.restoreCheck()
	if code != exitUnhealthy || len(got.Lost) != 2 || got.Lost[0].Matter != lost || got.Lost[0].Answered {
		t.Errorf("exit %d: %+v", code, got)
	}
	if name := r.ctl("restore-check", "-o", "name").out; name != lost.String()+"\n" {
		t.Errorf("-o name: %q", name)
	}
	if out := r.ok("dlq", "list"); strings.Count(out, lost.String()) != 2 {
		t.Errorf("dlq list names the matter nowhere:\n%s", out)
	}
	r.ok(commands(got.Next.Command)[0]...)
	if code, got := r.restoreCheck(); code != exitOK || !got.Lost[0].Answered || !got.Lost[1].Answered {
		t.Errorf("after the demand: exit %d: %+v", code, got)
	}
}

// Rows that do not fit each other, and a queue that does not answer, are said.
func TestRestoreCheckOfRowsThatDoNotFit(t *testing.T) {
	r := newRig(t)
	r.served()
	r.exec(`ALTER TABLE ops.matter_frames DISABLE TRIGGER ALL`)
	r.exec(`UPDATE ops.matter_frames SET built_at = built_at - interval '1 day'`)
	code, got := r.restoreCheck()
	if code != exitUnhealthy || got.Behind != 1 || got.Next.Command != "railctl check" {
		t.Errorf("exit %d: %+v", code, got)
	}
	r.exec(`UPDATE ops.matter_frames SET built_at = built_at + interval '1 day'`)
	r.env = append(r.env, "RAIL_AWS_ENDPOINT=http://127.0.0.1:1", "RAIL_TRIGGER_QUEUE_URL=http://127.0.0.1:1/0/q")
	if code, got := r.restoreCheck(); code != exitError || got.Unseen == "" || got.Behind != 0 {
		t.Errorf("exit %d: %+v", code, got)
	}
	if got := r.ctl("restore-check", "--limit", "0"); got.code != exitUsage {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

// On another server every scope of the fence is closed, once, and stays so until a
// person opens it under an epoch that was never handed out.
func TestRestoreCheckClosesTheFence(t *testing.T) {
	r := newRig(t)
	r.exec(`SELECT ops.configure_fences('{system, fixture/x}', 'rail', 'op', 'why')`)
	if code, got := r.restoreCheck(); code != exitOK || len(got.Closed) != 0 {
		t.Fatalf("a sound ledger, exit %d: %+v", code, got)
	}
	r.exec(`UPDATE ops.ledger SET system_identifier = system_identifier + 1`)
	for range 2 {
		code, got := r.restoreCheck()
		if code != exitUnhealthy || !got.Changed || len(got.Closed) != 2 || !strings.HasPrefix(got.Next.Command, "railctl epoch bump --since ") {
			t.Fatalf("exit %d: %+v", code, got)
		}
	}
	r.ok("epoch", "bump", "--since", "2026-01-31T02:00:00Z", "--reason", "why", "--yes")
	code, got := r.restoreCheck()
	if code != exitUnhealthy || got.Changed || len(got.Closed) != 2 || !strings.HasPrefix(got.Next.Command, "railctl authority open-restored fixture/x ") {
		t.Fatalf("after the bump: exit %d: %+v", code, got)
	}
	if out := r.ctl("restore-check").out; !strings.Contains(out, "2 scope(s) of the write fence stay closed") {
		t.Errorf("%s", out)
	}
	for _, scope := range got.Closed {
		if refused := r.ctl("authority", "open-restored", scope, "--writer", "rail", "--epoch", "1", "--reason", "why", "--yes"); refused.code == exitOK {
			t.Errorf("opened under an epoch that was handed out: %s", refused.out)
		}
		r.ok("authority", "open-restored", scope, "--writer", "rail", "--epoch", "5", "--reason", "why", "--yes")
	}
	if code, got := r.restoreCheck(); code != exitOK || len(got.Closed) != 0 {
		t.Errorf("after all were opened: exit %d: %+v", code, got)
	}
}
