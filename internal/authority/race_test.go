package authority_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

type verb = func(authority.Controller) (authority.Change, error)

// ended is what became of a verb.
type ended struct {
	authority.Change
	err error
}

// interleaved calls one verb, and the other before the first has committed. The second
// has to wait for that commit: what it read would not be true any more.
func (s *stage) interleaved(t *testing.T, first, second verb) (one, two ended) {
	t.Helper()
	got := beside(t, s, func(conn *pgxpool.Conn) error {
		one.Change, one.err = first(s.controller(conn))
		return one.err
	}, func(conn *pgxpool.Conn) (authority.Change, error) { return second(s.controller(conn)) })
	return one, ended{got.value, got.err}
}

type answered[T any] struct {
	value T
	err   error
}

// beside does something in a transaction, and begins something else on another session
// before that has committed. What was begun fails the test unless it waits.
func beside[T any](t *testing.T, s *stage, first func(*pgxpool.Conn) error, second func(*pgxpool.Conn) (T, error)) (two answered[T]) {
	t.Helper()
	a, b := s.session(t), s.session(t)
	exec(t, a, `BEGIN`)
	end := `COMMIT`
	if first(a) != nil {
		end = `ROLLBACK`
	}
	got := make(chan answered[T], 1)
	go func() {
		v, err := second(b)
		got <- answered[T]{v, err}
	}()
	waits := s.blocked(t, b, func() bool { return len(got) > 0 })
	exec(t, a, end)
	if two = <-got; !waits {
		t.Errorf("the second did not wait for the first: %+v", two)
	}
	return two
}

// blocked waits until a session has to wait for another, or has ended what it does.
func (s *stage) blocked(t *testing.T, conn *pgxpool.Conn, ended func() bool) (waits bool) {
	t.Helper()
	eventually(t, "the second waits, or has ended", func() bool {
		waits = value[bool](t, s.Pool, `SELECT cardinality(pg_blocking_pids($1)) > 0`, conn.Conn().PgConn().PID())
		return waits || ended()
	})
	return waits
}

func (s *stage) session(t *testing.T) *pgxpool.Conn {
	t.Helper()
	conn, err := s.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	return conn
}

func (s *stage) controller(conn *pgxpool.Conn) authority.Controller {
	return authority.Controller{DB: conn.Conn(), Actor: s.c.Actor}
}

// step is a verb of any change.
type step = func(authority.Controller, context.Context, rail.UUID) (authority.Change, error)

// of is a verb of one change.
func of(do step, t *testing.T, id rail.UUID) verb {
	return func(c authority.Controller) (authority.Change, error) { return do(c, t.Context(), id) }
}

// compares stores what a shadow showed before.
func compares(c authority.Controller, ctx context.Context, id rail.UUID) (authority.Change, error) {
	ch, _, err := c.Shadow(ctx, id, authority.ShadowOptions{})
	return ch, err
}

func verifies(c authority.Controller, ctx context.Context, id rail.UUID) (authority.Change, error) {
	ch, _, err := c.Verify(ctx, id, nil)
	return ch, err
}

// An abort that meets a step of its change takes back what the step did, or comes too
// late: the scope never stays closed behind it.
func TestAnAbortMeetsAStep(t *testing.T) {
	t.Parallel()
	steps := map[string]struct {
		from string
		do   step
	}{
		"shadow":  {"shadowed", compares},
		"close":   {"shadowed", authority.Controller.Close},
		"drain":   {"closing", authority.Controller.Drain},
		"seal":    {"drained", authority.Controller.Seal},
		"verify":  {"sealed", verifies},
		"advance": {"verified", authority.Controller.Advance},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.mustWrite(t, s.key, `{"n": 1}`)
			for _, abortFirst := range []bool{false, true} {
				id := s.planned(t, nil)
				s.until(t, id, step.from)
				first, second := of(step.do, t, id), of(authority.Controller.Abort, t, id)
				if abortFirst {
					first, second = second, first
				}
				one, two := s.interleaved(t, first, second)
				if one.err != nil || two.err != nil {
					t.Fatal(one.err, two.err)
				}
				want := "aborted"
				if name == "advance" && !abortFirst {
					want = "advanced"
				}
				if ch, err := authority.ChangeOf(t.Context(), s.Pool, id); err != nil || ch.Outcome != want || s.fence(t).State != "open" {
					t.Fatalf("abort first %v: change %s, fence %s, %v", abortFirst, ch.Phase, s.fence(t).State, err)
				}
				if want == "advanced" {
					s.wantFence(t, "open", "rail", 2)
					s.back(t, id)
				}
				s.mustWrite(t, s.key, `{"n": 2}`)
			}
		})
	}
}

// A closing that outlived its change, however that came about, is opened at its
// deadline: nobody else would.
func TestTheWatchdogOpensWhatNobodyOwns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	for _, phase := range []string{"closing", "sealed"} {
		id := s.planned(t, func(m *authority.Move) { m.Deadline = 1500 * time.Millisecond })
		s.until(t, id, phase)
		exec(t, s.Pool, `UPDATE ops.write_fence_changes SET phase = 'aborted', outcome = 'aborted' WHERE change_id = $1`, id)
		eventually(t, "the closing is opened", func() bool {
			exec(t, s.Pool, `SELECT ops.abort_overdue('test')`)
			return s.fence(t).State == "open"
		})
		s.wantFence(t, "open", "old", 1)
		s.mustWrite(t, s.key, `{"n": 2}`)
	}
}

// mayGoBack meets what a way back asks for besides its window.
func (s *stage) mayGoBack(t *testing.T) {
	t.Helper()
	if err := s.c.Exercised(t.Context(), s.scope, "restore"); err != nil {
		t.Fatal(err)
	}
	exec(t, s.importer, `SELECT ops.note_exported(array_agg(seq)) FROM ops.to_export(NULL, 1000)`)
}

// planBack plans a way back that is ready to close.
func (s *stage) planBack(t *testing.T, of rail.UUID) rail.UUID {
	t.Helper()
	return s.planBackWith(t, of, 0)
}

// planBackWith gives it a grace of its own.
func (s *stage) planBackWith(t *testing.T, of rail.UUID, grace time.Duration) rail.UUID {
	t.Helper()
	s.mayGoBack(t)
	m := authority.Move{Change: rail.NewUUID(), Grace: grace, Deadline: time.Minute, Budget: time.Minute}
	ch, conditions, err := s.c.Rollback(t.Context(), of, m)
	if err != nil || len(conditions) != 5 {
		t.Fatalf("rollback: %v, %v", conditions, err)
	}
	if _, _, err := s.c.Shadow(t.Context(), ch.ID, authority.ShadowOptions{}); err != nil {
		t.Fatal(err)
	}
	return ch.ID
}

// Of a way back and the end of its window one wins: a scope goes back before the window
// is ended, or never.
func TestCompleteMeetsAWayBack(t *testing.T) {
	t.Parallel()
	for _, completeFirst := range []bool{true, false} {
		s := newStage(t)
		s.mustWrite(t, s.key, `{"n": 1}`)
		there := s.cross(t).ID
		back := s.planBack(t, there)
		complete, closing := of(authority.Controller.Complete, t, there), of(authority.Controller.Close, t, back)
		if completeFirst {
			one, two := s.interleaved(t, complete, closing)
			if one.err != nil || one.Phase != "completed" {
				t.Fatal(one.Phase, one.err)
			}
			s.wantRefusal(t, two.err, "change_window_closed")
			s.wantFence(t, "open", "rail", 2)
			if ch, err := s.c.Abort(t.Context(), back); err != nil || ch.Outcome != "aborted" {
				t.Error(ch.Phase, err)
			}
			continue
		}
		one, two := s.interleaved(t, closing, complete)
		if one.err != nil || one.Phase != "closing" {
			t.Fatal(one.Phase, one.err)
		}
		s.wantRefusal(t, two.err, "complete_meets_a_rollback")
		if ch, err := s.c.Cross(t.Context(), back, nil); err != nil || ch.Outcome != "advanced" {
			t.Fatalf("%+v, %v", ch, err)
		}
		s.wantFence(t, "open", "old", 3)
	}
}

// A shadow that is compared once more beside a closing does not take the closing back.
func TestAShadowMeetsAClosing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	for _, closeFirst := range []bool{true, false} {
		id := s.planned(t, nil)
		first, second := of(authority.Controller.Close, t, id), of(compares, t, id)
		if !closeFirst {
			first, second = second, first
		}
		if one, two := s.interleaved(t, first, second); one.err != nil || two.err != nil || two.Phase != "closing" {
			t.Fatalf("close first %v: %s, %v, then %s, %v", closeFirst, one.Phase, one.err, two.Phase, two.err)
		}
		if ch, err := s.c.Cross(t.Context(), id, s.heads); err != nil || ch.Outcome != "advanced" {
			t.Fatalf("%+v, %v", ch, err)
		}
		s.back(t, id)
	}
}

// Nobody plans on what another plan, or the end of a window, is about to change.
func TestAPlanMeetsWhatEndsItsReason(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	plan := func() verb {
		m := authority.Move{Change: rail.NewUUID(), Scope: s.scope, To: "rail", Deadline: time.Minute, Budget: time.Minute}
		return func(c authority.Controller) (authority.Change, error) { return c.Plan(t.Context(), m) }
	}
	one, two := s.interleaved(t, plan(), plan())
	if one.err != nil || pg.SQLState(two.err) != "RF409" || pg.Constraint(two.err) != "change_one_at_a_time" {
		t.Fatalf("%v, then %v", one.err, two.err)
	}
	if _, err := s.c.Abort(t.Context(), one.ID); err != nil {
		t.Fatal(err)
	}
	there := s.cross(t).ID
	s.mayGoBack(t)
	back := func(c authority.Controller) (authority.Change, error) {
		ch, _, err := c.Rollback(t.Context(), there, authority.Move{Change: rail.NewUUID(), Deadline: time.Minute, Budget: time.Minute})
		return ch, err
	}
	one, two = s.interleaved(t, of(authority.Controller.Complete, t, there), back)
	if one.err != nil || one.Phase != "completed" {
		t.Fatal(one.Phase, one.err)
	}
	s.wantRefusal(t, two.err, "change_window_closed")
	s.wantFence(t, "open", "rail", 2)
}

// The window of a change whose way back has been planned may run out meanwhile.
func TestAWayBackClosesWithinTheWindow(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	back := s.planBack(t, s.cross(t).ID)
	exec(t, s.Pool, `UPDATE ops.write_fence_changes SET window_ends_at = clock_timestamp() WHERE phase = 'advanced'`)
	_, err := s.c.Close(t.Context(), back)
	s.wantRefusal(t, err, "change_window_closed")
	s.wantFence(t, "open", "rail", 2)
}

func (s *stage) wantRefusal(t *testing.T, err error, name string) {
	t.Helper()
	if pg.SQLState(err) != "RF422" || pg.Constraint(err) != name {
		t.Fatalf("%v: want RF422 %s", err, name)
	}
}
