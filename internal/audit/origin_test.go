package audit_test

import (
	"fmt"
	"testing"

	"briefrail/internal/audit"
	"briefrail/internal/rail"
)

// traced records a fact as a producer that traces does, and returns its context.
func (l *ledger) traced(k rail.Key, n int) rail.TraceContext {
	l.t.Helper()
	parent := fmt.Sprintf("00-%032x-%016x-01", n+1, n+1)
	l.exec(`INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name, traceparent, tracestate) VALUES ($1, $2, 'document.uploaded', $3, 'a=b')`,
		k.Firm, k.Matter, parent)
	return rail.TraceContext{Parent: parent, State: "a=b"}
}

func assertOrigin(t *testing.T, got []rail.TraceContext, want ...rail.TraceContext) {
	t.Helper()
	in := map[rail.TraceContext]bool{}
	for _, c := range got {
		in[c] = true
	}
	for _, c := range want {
		if !in[c] {
			t.Errorf("%s is missing", c.Parent)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d causes, want %d", len(got), len(want))
	}
}

// What a build serves is what came since the last landing and before its claim:
// neither what is landed, nor what comes while it runs, nor another matter's.
func TestOriginIsOfWhatTheBuildServes(t *testing.T) {
	t.Parallel()
	l, k := newLedger(t), newKey()
	landed := l.traced(k, 1)
	l.traced(k, 1) // of the same transaction
	l.decide()
	first := l.claim("w")
	got, epoch, err := audit.Origin(t.Context(), l.Pool, first.Claim)
	if err != nil || epoch != 1 {
		t.Fatalf("epoch %d, %v", epoch, err)
	}
	assertOrigin(t, got, landed)
	during, other := l.traced(k, 2), newKey()
	l.decide()
	if got, _, err = audit.Origin(t.Context(), l.Pool, first.Claim); err != nil {
		t.Fatal(err)
	}
	assertOrigin(t, got, landed)
	if err := l.land(first); err != nil {
		t.Fatal(err)
	}
	l.fact(k, "document.uploaded") // of a producer that does not trace
	l.traced(other, 3)
	late := l.traced(k, 4)
	l.decide()
	for second := l.claim("w"); ; second = l.claim("w") {
		if second.Key != k {
			continue
		}
		if got, _, err = audit.Origin(t.Context(), l.Pool, second.Claim); err != nil {
			t.Fatal(err)
		}
		assertOrigin(t, got, during, late)
		return
	}
}

// Of very many the latest are named, and nobody's are none.
func TestOriginIsBounded(t *testing.T) {
	t.Parallel()
	l, k, none := newLedger(t), newKey(), newKey()
	for i := range 300 {
		l.traced(k, i)
	}
	l.fact(none, "document.uploaded")
	for range 4 {
		l.decide()
	}
	for range 2 {
		c := l.claim("w")
		got, _, err := audit.Origin(t.Context(), l.Pool, c.Claim)
		if err != nil {
			t.Fatal(err)
		}
		if c.Key == none && len(got) != 0 {
			t.Errorf("%d causes of one that nobody traced", len(got))
		}
		if c.Key == k && (len(got) != 128 || got[0].Parent != fmt.Sprintf("00-%032x-%016x-01", 300, 300)) {
			t.Errorf("%d causes, first %s", len(got), got[0].Parent)
		}
	}
}
