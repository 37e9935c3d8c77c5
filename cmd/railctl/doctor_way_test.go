package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"briefrail/internal/audit"
	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
)

func wayChecks() []string {
	return []string{
		nudge.CheckBus, nudge.CheckRule, nudge.CheckTarget, nudge.CheckTargetLetters,
		nudge.CheckQueue, nudge.CheckPolicy, nudge.CheckRedrive, nudge.CheckLetters,
	}
}

// diagnosed runs the doctor, whatever it ends with, and returns what it says of the way
// and of the relays.
func (r *rig) diagnosed() map[string]audit.Diagnosis {
	r.t.Helper()
	got := r.ctl("doctor", "-o", "json")
	var e struct{ Data []audit.Diagnosis }
	if err := json.Unmarshal([]byte(got.out), &e); err != nil {
		r.t.Fatalf("%v: %s%s", err, got.out, got.err)
	}
	out := map[string]audit.Diagnosis{}
	for _, d := range e.Data {
		if slices.Contains(wayChecks(), d.Check) || d.Check == "relays" {
			out[d.Check] = d
		}
	}
	return out
}

func TestDoctorLooksAlongTheWay(t *testing.T) {
	r := newRig(t)
	w := newWay(r, awsfake.Layout{})
	if got := r.diagnosed(); len(got) != 1 || got["relays"].State != audit.OK {
		t.Errorf("over the ledger alone: %+v", got)
	}
	r.env = append(r.env[:len(r.env)-2], fakeEnvironment(w.url, w.places)...) // what aws-fake prints leads railctl there
	r.env = append(r.env, "RAIL_AWS_ENDPOINT="+w.url)
	got := r.diagnosed()
	for _, check := range wayChecks() {
		if d := got[check]; d.State != audit.OK || d.Text == "" {
			t.Errorf("%s: %+v", check, d)
		}
	}
	w.Always("DescribeEventBus", 1, awsfake.Denied())
	if d := r.diagnosed()["bus"]; d.State != audit.Unknown || d.Advice == "" {
		t.Errorf("not allowed to look: %+v", d)
	}
	w.Clear()
	r.env = slices.DeleteFunc(r.env, func(v string) bool { return strings.HasPrefix(v, "RAIL_RELAY_EVENT_BUS=") })
	r.env = append(r.env, "RAIL_RELAY_EVENT_BUS=misspelt")
	if d := r.diagnosed()["bus"]; d.State != audit.Fail || !strings.Contains(d.Text, "misspelt") {
		t.Errorf("no such bus: %+v", d)
	}
	if code := r.ctl("doctor").code; code != exitUnhealthy {
		t.Errorf("exit %d, want %d", code, exitUnhealthy)
	}
}

// Queues alone: each is looked at once, and no bus is asked for.
func TestDoctorLooksAtQueuesInUse(t *testing.T) {
	r := newRig(t)
	w := newWay(r, awsfake.Layout{Receives: 2})
	r.env = append(r.env, "RAIL_RELAY_SINKS=[sqs]", "RAIL_RELAY_QUEUE_URL="+w.places.Queue)
	for _, source := range []string{"RAIL_TRIGGER_SOURCE=ledger", "RAIL_TRIGGER_SOURCE=sqs"} {
		r.env = append(r.env, source)
		got := r.diagnosed()
		if got["queue"].State != audit.OK || got["redrive"].State != audit.Warn || got["dead_letters"].State != audit.OK || len(got) != 4 {
			t.Errorf("%s: %+v", source, got)
		}
		r.env = r.env[:len(r.env)-1]
	}
	if n := w.Calls("ListRules"); n != 0 {
		t.Errorf("a bus was asked %d times", n)
	}
}

// An endpoint that is away hides nothing of what the database says.
func TestDoctorWithoutAWS(t *testing.T) {
	r := newRig(t)
	r.env = append(r.env, "RAIL_AWS_ENDPOINT=http://127.0.0.1:1", "RAIL_RELAY_SINKS=[sqs]", "RAIL_RELAY_QUEUE_URL=http://127.0.0.1:1/0/q")
	if got := r.diagnosed(); got["queue"].State != audit.Unknown || got["relays"].State != audit.OK {
		t.Errorf("%+v", got)
	}
}

func TestDoctorMissesTheRelay(t *testing.T) {
	r := newRig(t)
	r.exec(`UPDATE ops.ledger SET publishing = 'required'`)
	if d := r.diagnosed()["relays"]; d.State != audit.Fail || d.Text != "publishing is required and no relay lives" || d.Advice == "" {
		t.Errorf("%+v", d)
	}
	r.exec(`INSERT INTO ops.outbox_relays (relay, name, expires_at) VALUES (gen_random_uuid(), 'a', now() + interval '1 minute'), (gen_random_uuid(), 'gone', now() - interval '1 s')`)
	if d := r.diagnosed()["relays"]; d.State != audit.OK || !strings.HasPrefix(d.Text, "1 relay lives") {
		t.Errorf("%+v", d)
	}
	r.parkFact()
	if d := r.diagnosed()["relays"]; d.State != audit.Warn || !strings.Contains(d.Text, "1 fact is parked") {
		t.Errorf("%+v", d)
	}
}
