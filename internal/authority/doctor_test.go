package authority_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"briefrail/internal/authority"
	"briefrail/internal/rail"
)

func (s *stage) diagnosis(t *testing.T) authority.Diagnosis {
	t.Helper()
	d, err := authority.Doctor(t.Context(), s.Pool, s.scope)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A step that a hold would refuse is no safe one: the hold comes first. Going on where
// it is closed, and going back, are never held.
func TestTheDoctorKnowsOfHolds(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	raise := func(scope string) int64 {
		return value[int64](t, s.Pool, `SELECT ops.raise_hold(nullif($1, ''), 'late_facts', '{}')`, scope)
	}
	step := func(next string, holds int) {
		t.Helper()
		if d := s.diagnosis(t); d.Next != next || len(d.Holds) != holds {
			t.Fatalf("next is %q with %d holds, want %q with %d", d.Next, len(d.Holds), next, holds)
		}
	}
	release := func(hold int64) {
		t.Helper()
		want := fmt.Sprintf("railctl authority release %d --class CLASS", hold)
		if d := s.diagnosis(t); d.Next != want || !strings.Contains(d.Why, "then: railctl authority") {
			t.Fatalf("next is %q: %s", d.Next, d.Why)
		}
		if was, err := s.c.Release(t.Context(), hold, "routing"); !was || err != nil {
			t.Fatal(was, err)
		}
	}
	raise("system") // of another scope
	step("railctl authority plan "+s.scope, 0)
	release(raise(""))
	id := s.planned(t, nil)
	release(raise(s.scope))
	step("railctl authority cross "+id.String(), 0)
	s.until(t, id, "closing")
	hold := raise("")
	step("railctl authority cross "+id.String(), 1)
	ch, err := s.c.Cross(t.Context(), id, nil)
	if err != nil || ch.Outcome != "advanced" {
		t.Fatal(ch.Phase, err)
	}
	step("", 1)
	back := s.planBack(t, id)
	step("railctl authority cross "+back.String(), 1)
	if was, err := s.c.Release(t.Context(), hold, "routing"); !was || err != nil {
		t.Fatal(was, err)
	}
	drill := "fixture/drill-" + rail.NewUUID().String()
	if _, err := s.c.Configure(t.Context(), []string{drill}, "old"); err != nil {
		t.Fatal(err)
	}
	raise("")
	if s.scope = drill; len(s.diagnosis(t).Holds) != 0 {
		t.Error("a drill is held by a hold on all")
	}
}

// Whoever stays in a transaction holds a closing up: the doctor says which roles of the
// old writer may, and how to bound them.
func TestTheDoctorLooksAtTimeouts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	d := s.diagnosis(t)
	want := "ALTER ROLE " + s.oldRole + " SET idle_in_transaction_session_timeout = '10s'"
	if len(d.Bounds) != 4 || !slices.Contains(d.Bounds, want) {
		t.Fatalf("%q", d.Bounds)
	}
	for _, sql := range d.Bounds {
		exec(t, s.Pool, sql)
	}
	if d := s.diagnosis(t); len(d.Bounds) != 0 {
		t.Errorf("%q", d.Bounds)
	}
	exec(t, s.Pool, `ALTER ROLE `+s.oldRole+` SET statement_timeout = 0`)
	if d := s.diagnosis(t); len(d.Bounds) != 1 {
		t.Errorf("%q", d.Bounds)
	}
	exec(t, s.Pool, `DO $$ BEGIN EXECUTE format('ALTER ROLE `+s.oldRole+` IN DATABASE %I SET statement_timeout = %L', current_database(), '1min'); END $$`)
	if d := s.diagnosis(t); len(d.Bounds) != 0 {
		t.Errorf("%q", d.Bounds)
	}
}
