package audit_test

import (
	"strings"
	"testing"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
)

// ada is an operator with a reason.
func ada(reason string) jobs.Actor { return jobs.Actor{Name: "ada", Reason: reason} }

func TestStaleSaysOfEachWhatHappensNext(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	parked, running, held := newKey(), newKey(), newKey()
	for _, k := range []rail.Key{parked, running} {
		l.demand(k)
	}
	if _, err := ada("the source is wrong").Park(t.Context(), l.Pool, parked); err != nil {
		t.Fatal(err)
	}
	l.claim("w1")
	first, second := rail.Key{Firm: held.Firm, Matter: rail.NewUUID()}, held
	l.demand(first)
	l.demand(second)
	rows, err := audit.Stale(t.Context(), l.Pool, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 4 || rows[0].Key != parked || rows[3].Key != second {
		t.Fatalf("%d rows, want 4, the longest owed first: %+v", len(rows), rows)
	}
	for i, want := range []string{
		"nothing, until somebody unparks it (parked by an operator: the source is wrong)", "when its build ends",
		"no other matter of its firm goes before it", "1 other matter of its firm goes before it",
	} {
		if !strings.Contains(rows[i].Next, want) {
			t.Errorf("row %d: %q, want %q", i, rows[i].Next, want)
		}
	}
	if _, err := ada("maintenance").Pause(t.Context(), l.Pool, held.Firm); err != nil {
		t.Fatal(err)
	}
	if rows, err = audit.Stale(t.Context(), l.Pool, 0); err != nil || !strings.Contains(rows[3].Next, "no claim until dispatch is resumed") {
		t.Errorf("%+v, %v", rows, err)
	}
	if strings.Contains(rows[1].Next, "resumed") {
		t.Errorf("another firm's pause is told of %+v", rows[1])
	}
	if rows, err = audit.Stale(t.Context(), l.Pool, 1); err != nil || len(rows) != 1 {
		t.Errorf("%d rows, %v, want 1", len(rows), err)
	}
}

func TestParkedMattersAreNarrowed(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	one, two, canary := newKey(), newKey(), rail.Canary()
	for k, why := range map[rail.Key]string{one: "Wrong source", two: "a quiet evening", canary: "nobody's"} {
		l.demand(k)
		if _, err := ada(why).Park(t.Context(), l.Pool, k); err != nil {
			t.Fatal(err)
		}
	}
	l.force(`UPDATE ops.matter_frame_jobs SET queued_at = queued_at - interval '2 hours' WHERE matter_id = $1`, one.Matter)
	for name, c := range map[string]struct {
		f    audit.ParkedFilter
		want int
	}{
		"all": {audit.ParkedFilter{}, 2}, "a firm": {audit.ParkedFilter{Firm: two.Firm}, 1}, "a reason": {audit.ParkedFilter{Reason: "wrong SOURCE"}, 1},
		"a pattern is text": {audit.ParkedFilter{Reason: "%"}, 0}, "an age": {audit.ParkedFilter{Older: time.Hour}, 1},
		"by failures": {audit.ParkedFilter{By: "failures"}, 0}, "by operators": {audit.ParkedFilter{By: "operator"}, 2},
	} {
		rows, err := audit.ParkedMatters(t.Context(), l.Pool, c.f, 0)
		if err != nil || len(rows) != c.want {
			t.Errorf("%s: %d rows, want %d, %v", name, len(rows), c.want, err)
		}
		keys, err := audit.ParkedKeys(t.Context(), l.Pool, c.f, 0)
		if err != nil || len(keys) != c.want {
			t.Errorf("%s: %d keys, want %d, %v", name, len(keys), c.want, err)
		}
	}
	if rows, err := audit.ParkedMatters(t.Context(), l.Pool, audit.ParkedFilter{}, 1); err != nil || len(rows) != 1 || rows[0].Key != one {
		t.Errorf("the longest parked comes first: %+v, %v", rows, err)
	}
}
