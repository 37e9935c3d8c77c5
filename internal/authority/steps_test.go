package authority_test

import (
	"testing"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
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

// restores closes what came out of a backup.
func restores(t *testing.T) verb {
	return func(c authority.Controller) (authority.Change, error) {
		_, err := c.CloseRestored(t.Context())
		return authority.Change{}, err
	}
}

// A restored ledger is closed over whatever is being planned, and nothing is planned
// over that.
func TestAClosedRestoreMeetsAPlan(t *testing.T) {
	t.Parallel()
	for _, planFirst := range []bool{true, false} {
		s := newStage(t)
		m := authority.Move{Change: rail.NewUUID(), Scope: s.scope, To: "rail", Deadline: time.Minute, Budget: time.Minute}
		plan := func(c authority.Controller) (authority.Change, error) { return c.Plan(t.Context(), m) }
		if !planFirst {
			if one, two := s.interleaved(t, restores(t), plan); one.err != nil || pg.Constraint(two.err) != "change_one_at_a_time" {
				t.Errorf("closed: %v, then planned: %v", one.err, two.err)
			}
		} else if one, two := s.interleaved(t, plan, restores(t)); one.err != nil || two.err != nil {
			t.Errorf("planned: %v, then closed: %v", one.err, two.err)
		} else if ch, err := authority.ChangeOf(t.Context(), s.Pool, m.Change); err != nil || ch.Outcome != "aborted" {
			t.Errorf("what was planned is %s, %v", ch.Phase, err)
		}
		s.wantFence(t, "sealed", "old", 1)
	}
}

// Of two who open a restored scope one is told that it is open.
func TestTwoOpenOneRestoredScope(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	if _, err := s.c.CloseRestored(t.Context()); err != nil {
		t.Fatal(err)
	}
	open := func(writer string, epoch int64) verb {
		return func(c authority.Controller) (authority.Change, error) {
			return c.OpenRestored(t.Context(), s.scope, writer, epoch)
		}
	}
	one, two := s.interleaved(t, open("old", 5), open("rail", 9))
	if one.err != nil {
		t.Fatal(one.err)
	}
	s.wantRefusal(t, two.err, "restore_not_closed")
	s.wantFence(t, "open", "old", 5)
}

// A writer that a window is open to is not retired, whatever it writes still.
func TestAWriterThatMayComeBackIsNotRetired(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	s.cross(t)
	_, err := s.c.RetireWriter(t.Context(), "old", nil)
	s.wantRefusal(t, err, "retire_has_open_changes")
}
