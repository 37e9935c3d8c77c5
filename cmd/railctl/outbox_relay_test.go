package main

import (
	"strings"
	"testing"

	"briefrail/internal/rail"
)

// parkFact commits a fact that a relay has parked, and returns its id.
func (r *rig) parkFact() rail.UUID {
	r.t.Helper()
	event := value[rail.UUID](r, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
		VALUES (gen_random_uuid(), gen_random_uuid(), 'note.written') RETURNING event_id`)
	r.exec(`INSERT INTO ops.outbox_failures (event_id, bucket, attempts, next_attempt_at, last_code, last_text, parked_at, parked_reason)
		SELECT event_id, bucket, 3, now(), 'MalformedDetail', 'no', now(), 'MalformedDetail: no' FROM ops.domain_event_outbox WHERE event_id = $1`, event)
	return event
}

func TestDrainWaitsForWhatWasCommittedBefore(t *testing.T) {
	r := newRig(t)
	if got := r.ctl("outbox", "drain"); got.code != exitUsage || !strings.Contains(got.err, "--received") {
		t.Errorf("where nothing is published: exit %d: %s", got.code, got.err)
	}
	r.exec(`UPDATE ops.ledger SET publishing = 'required'`)
	first := value[rail.UUID](r, `INSERT INTO ops.domain_event_outbox (firm_id, event_name) VALUES (gen_random_uuid(), 'firm.created') RETURNING event_id`)
	if got := r.ctl("outbox", "drain", "--timeout", "100ms"); got.code != exitTimeout || !strings.Contains(got.out, "1 unpublished") {
		t.Errorf("not drained: exit %d: %s%s", got.code, got.out, got.err)
	}
	r.exec(`UPDATE ops.domain_event_outbox SET published_at = now()`)
	r.exec(`INSERT INTO ops.domain_event_outbox (firm_id, event_name) VALUES (gen_random_uuid(), 'firm.created')`)
	if d := decode[drained](r, "outbox.drain", "outbox", "drain", "--until", first.String()); d.Unpublished != 0 || d.Undecided != 1 {
		t.Errorf("up to the first: %+v", d)
	}
	if got := r.ctl("outbox", "drain", "--until", first.String(), "--received", "--timeout", "100ms"); got.code != exitTimeout {
		t.Errorf("without a receipt: exit %d", got.code)
	}
	if got := r.ctl("outbox", "drain", "--until", rail.NewUUID().String()); got.code != exitNotFound {
		t.Errorf("until nothing: exit %d: %s", got.code, got.err)
	}
	r.decide()
	r.ok("outbox", "drain", "--until", first.String(), "--received")
	r.ok("outbox", "drain", "--until", "1h")
	r.exec(`UPDATE ops.domain_event_outbox SET published_at = now() WHERE published_at IS NULL`)
	r.parkFact()
	if got := r.ctl("outbox", "drain"); got.code != exitRefused || !strings.Contains(got.err, "railctl outbox parked") {
		t.Errorf("with a parked fact: exit %d: %s", got.code, got.err)
	}
}

func TestReplay(t *testing.T) {
	r := newRig(t)
	one, two := r.parkFact(), r.parkFact()
	if out := r.ok("outbox", "parked"); !strings.Contains(out, "MalformedDetail: no") {
		t.Errorf("parked: %s", out)
	}
	if n := decode[replayed](r, "outbox.replay", "outbox", "replay", one.String(), "--reason", "mended").Facts; n != 1 {
		t.Errorf("replayed %d", n)
	}
	if got := r.ctl("outbox", "replay", one.String(), "--reason", "mended"); got.code != exitRefused {
		t.Errorf("again: exit %d", got.code)
	}
	if got := r.ctl("outbox", "replay", rail.NewUUID().String(), "--reason", "x"); got.code != exitNotFound {
		t.Errorf("nothing: exit %d", got.code)
	}
	for _, args := range [][]string{{}, {two.String(), "--all-parked"}} {
		if got := r.ctl(append([]string{"outbox", "replay", "--reason", "x"}, args...)...); got.code != exitUsage {
			t.Errorf("%v: exit %d", args, got.code)
		}
	}
	if n := decode[replayed](r, "outbox.replay", "outbox", "replay", "--all-parked", "--yes", "--reason", "mended").Facts; n != 1 {
		t.Errorf("replayed %d", n)
	}
	if n := value[int](r, `SELECT count(*)::int FROM ops.audit_log WHERE action = 'outbox.replay'`); n != 2 {
		t.Errorf("%d audit rows", n)
	}
}
