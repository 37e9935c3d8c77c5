package authority_test

import (
	"testing"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
)

// A step whose deadline has passed does nothing, also where no watchdog has come by:
// it is the row that says so. Whoever crosses gives the scope back then.
func TestAStepBehindItsDeadlineDoesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	for phase, c := range map[string]struct {
		state string
		do    step
	}{
		"drained":  {"closing", authority.Controller.Seal},
		"verified": {"sealed", authority.Controller.Advance},
	} {
		id := s.planned(t, nil)
		s.until(t, id, phase)
		exec(t, s.Pool, `UPDATE ops.write_fences SET closing_deadline = clock_timestamp() WHERE scope = $1`, s.scope)
		if ch, err := c.do(s.c, t.Context(), id); err != nil || ch.Phase != phase {
			t.Errorf("a late step leads from %s to %s, %v", phase, ch.Phase, err)
		}
		s.wantFence(t, c.state, "old", 1)
		if ch, err := s.c.Cross(t.Context(), id, nil); err != nil || ch.Outcome != "aborted" {
			t.Fatalf("%+v, %v", ch, err)
		}
		s.wantFence(t, "open", "old", 1)
	}
}

// What a plan relied on is asked again when it closes: nothing holds the scope, and its
// fence is where it was.
func TestACloseAsksAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	id := s.planned(t, nil)
	for _, scope := range []*string{nil, &s.scope} {
		hold := value[int64](t, s.Pool, `SELECT ops.raise_hold($1, 'late_facts', '{}')`, scope)
		_, err := s.c.Close(t.Context(), id)
		wantState(t, "a close in spite of a hold", err, "RF423")
		if was, err := s.c.Release(t.Context(), hold, "routing"); !was || err != nil {
			t.Fatal(was, err)
		}
	}
	s.byHand(t, `UPDATE ops.write_fences SET epoch = 5 WHERE scope = '`+s.scope+`'`)
	if _, err := s.c.Close(t.Context(), id); pg.SQLState(err) != "RF409" || pg.Constraint(err) != "change_fence_moved" {
		t.Errorf("a fence that went to another epoch is closed: %v", err)
	}
	s.wantFence(t, "open", "old", 5)
}

// A way back that closed within the window may end behind it, but not where the window
// turns out to have been over before.
func TestAWayBackAdvancesOnlyWithinTheWindow(t *testing.T) {
	t.Parallel()
	for ends, stands := range map[string]bool{"1 microsecond": true, "-1 second": false} { // after it closed
		s := newStage(t)
		s.mustWrite(t, s.key, `{"n": 1}`)
		back := s.planBack(t, s.cross(t).ID)
		s.until(t, back, "verified")
		exec(t, s.Pool, `UPDATE ops.write_fence_changes there SET window_ends_at = back.closed_at + $2::text::interval
			FROM ops.write_fence_changes back WHERE back.change_id = $1 AND there.change_id = back.rolls_back`, back, ends)
		ch, err := s.c.Advance(t.Context(), back)
		if !stands {
			s.wantRefusal(t, err, "change_window_closed")
			s.wantFence(t, "sealed", "rail", 2)
			continue
		}
		if err != nil || ch.Outcome != "advanced" {
			t.Fatalf("%+v, %v", ch, err)
		}
		s.wantFence(t, "open", "old", 3)
	}
}
