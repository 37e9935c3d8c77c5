package audit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/audit"
	"briefrail/internal/rail"
)

// An event is known by its fact, by its receipt after retention took the fact, or not.
func TestReadHeld(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	k := newKey()
	decided, taken := l.fact(k, "document.uploaded"), l.fact(k, "document.uploaded")
	l.decide()
	waiting := l.fact(k, "matter.created")
	l.force(`DELETE FROM ops.domain_event_outbox WHERE event_id = $1`, taken)
	got, err := audit.ReadHeld(t.Context(), l.Pool, []rail.UUID{decided, taken, waiting, rail.NewUUID()})
	if err != nil {
		t.Fatal(err)
	}
	want := map[rail.UUID]audit.Held{
		decided: {Event: decided, Firm: k.Firm, Matter: k.Matter, Name: "document.uploaded", Verdict: "demanded"},
		taken:   {Event: taken, Verdict: "demanded"},
		waiting: {Event: waiting, Firm: k.Firm, Matter: k.Matter, Name: "matter.created"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
