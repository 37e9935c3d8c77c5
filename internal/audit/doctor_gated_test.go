package audit_test

import (
	"strings"
	"testing"

	"briefrail/internal/audit"
	"briefrail/internal/rail"
)

// gated gives a fact the verdict that its firm was disabled.
func (l *ledger) gated(event rail.UUID) {
	l.t.Helper()
	l.exec(`WITH r AS (INSERT INTO ops.trigger_receipts (event_id, verdict) VALUES ($1, 'gated:firm_disabled') RETURNING event_id)
	  DELETE FROM ops.outbox_undecided u USING r WHERE u.event_id = r.event_id`, event)
}

func TestDoctorFindsFactsOfFirmsEnabledAgain(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	still, again := newKey(), newKey()
	l.gated(l.fact(still, "document.uploaded"))
	l.gated(l.fact(again, "document.uploaded"))
	last := l.fact(again, "document.uploaded")
	l.gated(last)
	look := func(disabled ...rail.UUID) audit.Diagnosis {
		o := doctorOptions()
		o.DisabledFirms = append([]rail.UUID{}, disabled...)
		return doctor(t, l, o)["gated_facts"]
	}
	d := look(still.Firm)
	if d.State != audit.Warn || !strings.HasPrefix(d.Text, "2 facts of 1 firm ") || !strings.Contains(d.Advice, "--firm "+again.Firm.String()) {
		t.Errorf("%+v", d)
	}
	if d := look(); d.State != audit.Warn || !strings.HasPrefix(d.Text, "3 facts of 2 firms ") || !strings.Contains(d.Advice, "--all") {
		t.Errorf("%+v", d)
	}
	if d := look(still.Firm, again.Firm); d.State != audit.OK {
		t.Errorf("%+v", d)
	}
	if d, ok := doctor(t, l, doctorOptions())["gated_facts"]; ok {
		t.Errorf("firms not known, and yet %+v", d)
	}
	l.exec(`SELECT ops.redecide('gated:firm_disabled', '-infinity', $1, 'kim', 'test')`, again.Firm)
	if d := look(still.Firm); d.State != audit.OK {
		t.Errorf("facts that are judged again: %+v", d)
	}
}
