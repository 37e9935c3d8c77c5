package authority_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// build claims the key for the rail and lands a frame; won is false where the claim is
// not to be had.
func (s *stage) build(t *testing.T, k rail.Key) (won bool, err error) {
	t.Helper()
	got, err := runs.ClaimKey(t.Context(), s.Pool, k, rail.Standard, runs.ClaimOptions{Worker: "w", Builder: "b", Lease: time.Minute})
	if err != nil || len(got) == 0 {
		return false, err
	}
	_, err = runs.Land(t.Context(), s.Pool, landing(got[0].Claim))
	return true, err
}

func landing(c jobs.Claim) runs.Landing {
	doc := []byte(`{"by": "rail"}`)
	return runs.Landing{Claim: c, Digest: digestOf(doc), Frame: runs.Frame{JSON: doc, SchemaVersion: "1", BuilderVersion: "1"}}
}

func TestACrossingThereAndBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"by": "old"}`)
	if won, err := s.build(t, s.key); won || err != nil {
		t.Fatalf("the rail claims what the old writer has authority over: %v, %v", won, err)
	}

	there := s.cross(t)
	s.wantFence(t, "open", "rail", 2)
	if there.MeasuredPause == nil || there.PredictedPause == nil || there.WindowEndsAt == nil || there.Report == nil {
		t.Errorf("not measured: %+v", there)
	}
	wantState(t, "the old writer, after the crossing", s.write(t.Context(), s.old, s.key, `{"by": "old", "late": 1}`), "RF409")
	if won, err := s.build(t, s.key); !won || err != nil {
		t.Fatalf("the rail builds after the crossing: %v, %v", won, err)
	}
	if n := value[int64](t, s.Pool, `SELECT authority_epoch FROM ops.matter_frames WHERE source = 'rail'`); n != 2 {
		t.Errorf("the rail's frame is of epoch %d", n)
	}
	if n := value[int64](t, s.Pool, `SELECT count(*) FROM ops.compatibility_log WHERE epoch = 2`); n != 1 {
		t.Errorf("%d frames are noted for the old writer", n)
	}

	m := authority.Move{Change: rail.NewUUID(), Deadline: time.Minute, Budget: time.Minute}
	if _, _, err := s.c.Rollback(t.Context(), there.ID, m); !errors.Is(err, authority.ErrNotOffered) {
		t.Errorf("a way back without a restore drill: %v", err)
	}
	if back := s.back(t, there.ID); back.Direction != "rollback" {
		t.Fatalf("%+v", back)
	}
	s.wantFence(t, "open", "old", 3)
	s.mustWrite(t, s.key, `{"by": "old", "again": 1}`)
	if won, err := s.build(t, s.key); won || err != nil {
		t.Errorf("the rail builds after the way back: %v, %v", won, err)
	}
	if ch, err := authority.ChangeOf(t.Context(), s.Pool, there.ID); err != nil || ch.Phase != "completed" {
		t.Errorf("what was rolled back is %s, %v", ch.Phase, err)
	}
	s.CheckLedger(t)
}

// back rolls a crossing back.
func (s *stage) back(t *testing.T, of rail.UUID) authority.Change {
	t.Helper()
	ch, err := s.c.Cross(t.Context(), s.planBack(t, of), nil)
	if err != nil || ch.Outcome != "advanced" {
		t.Fatalf("the way back: %+v, %v", ch, err)
	}
	return ch
}

// A build that is under way when authority moves neither lands nor costs an attempt.
func TestABuildUnderWayHandsItsClaimBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"by": "old"}`)
	there := s.cross(t)
	claim := s.claims(t)
	s.back(t, there.ID)
	if _, err := runs.Land(t.Context(), s.Pool, landing(claim)); !errors.Is(err, runs.ErrFenced) {
		t.Fatalf("a landing of the old epoch: %v", err)
	}
	if _, err := runs.Release(t.Context(), s.Pool, claim, runs.Failure{Kind: "authority", Text: "moved"}, 0); err != nil {
		t.Fatalf("the claim is not handed back: %v", err)
	}
	s.mustWrite(t, s.key, `{"by": "old", "n": 2}`)
	s.imports(t, s.scope)
	if status := value[string](t, s.Pool, `SELECT run_status FROM ops.matter_frame_jobs`); status != "queued" {
		t.Errorf("demand that the ledger held is %s after an import", status)
	}
}

// Whatever step a controller died after, another one goes on with the same id; a step
// that is done already is read and returned.
func TestAnyControllerGoesOn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	steps := []struct {
		phase string
		run   func(context.Context, rail.UUID) (authority.Change, error)
	}{
		{"closing", s.c.Close},
		{"drained", s.c.Drain},
		{"sealed", s.c.Seal},
		{"verified", func(ctx context.Context, id rail.UUID) (authority.Change, error) {
			ch, _, err := s.c.Verify(ctx, id, s.heads)
			return ch, err
		}},
		{"advanced", s.c.Advance},
	}
	for died := range len(steps) + 1 {
		id := s.planned(t, nil)
		for _, step := range steps[:died] {
			for range 2 { // the second after a commit whose reply was lost
				if ch, err := step.run(t.Context(), id); err != nil || ch.Phase != step.phase {
					t.Fatalf("%s: %s, %v", step.phase, ch.Phase, err)
				}
			}
		}
		ch, err := s.c.Cross(t.Context(), id, s.heads)
		if err != nil || ch.Outcome != "advanced" {
			t.Fatalf("after %d steps: %+v, %v", died, ch, err)
		}
		again, err := s.c.Cross(t.Context(), id, s.heads)
		if err != nil || *again.ToEpoch != *ch.ToEpoch || !again.AdvancedAt.Equal(*ch.AdvancedAt) {
			t.Fatalf("repeated: %+v, %v", again, err)
		}
		s.back(t, id)
	}
}

// The same id about something else is refused; steps out of order too.
func TestAChangeIsAboutOneThing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	id := rail.NewUUID()
	m := authority.Move{Change: id, Scope: s.scope, To: "rail", Budget: time.Minute}
	for range 2 {
		if ch, err := s.c.Plan(t.Context(), m); err != nil || ch.Phase != "planned" {
			t.Fatalf("%s, %v", ch.Phase, err)
		}
	}
	other := m
	other.Grace = time.Second
	_, err := s.c.Plan(t.Context(), other)
	wantState(t, "the same id with another grace", err, "RF422")
	for what, step := range map[string]func(context.Context, rail.UUID) (authority.Change, error){
		"close": s.c.Close, "drain": s.c.Drain, "seal": s.c.Seal, "advance": s.c.Advance, "complete": s.c.Complete, "retire": s.c.Retire,
	} {
		_, err := step(t.Context(), id)
		wantState(t, what+" of a plan", err, "RF422")
	}
	second := m
	second.Change = rail.NewUUID()
	_, err = s.c.Plan(t.Context(), second)
	wantState(t, "a second change of the scope", err, "RF409")
	_, err = s.c.Close(t.Context(), rail.NewUUID())
	wantState(t, "a change that nobody planned", err, "RF404")
}

// A controller that dies right after closing costs its scope no more than the deadline
// and a turn of any daemon's watchdog; the same controller, come back late, loses.
func TestTheWatchdogTakesBack(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"closing", "drained", "sealed", "verified"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.mustWrite(t, s.key, `{"n": 1}`)
			id := s.planned(t, func(m *authority.Move) { m.Deadline = 1500 * time.Millisecond })
			s.until(t, id, phase)
			s.watchdog(t, "a daemon")
			s.reopens(t)
			s.wantFence(t, "open", "old", 1)
			for what, step := range map[string]func(context.Context, rail.UUID) (authority.Change, error){
				"close": s.c.Close, "drain": s.c.Drain, "seal": s.c.Seal, "advance": s.c.Advance,
			} {
				if ch, err := step(t.Context(), id); err != nil || ch.Outcome != "aborted" {
					t.Errorf("a late %s: %+v, %v", what, ch, err)
				}
			}
			s.wantFence(t, "open", "old", 1)
			s.mustWrite(t, s.key, `{"n": 2}`)
		})
	}
}

// until takes a change to a phase.
func (s *stage) until(t *testing.T, id rail.UUID, phase string) {
	t.Helper()
	ch, err := authority.ChangeOf(t.Context(), s.Pool, id)
	for err == nil && ch.Phase != phase {
		switch ch.Phase {
		case "shadowed":
			ch, err = s.c.Close(t.Context(), id)
		case "closing":
			ch, err = s.c.Drain(t.Context(), id)
		case "drained":
			ch, err = s.c.Seal(t.Context(), id)
		case "sealed":
			ch, _, err = s.c.Verify(t.Context(), id, nil)
		default:
			t.Fatalf("%s does not lead to %s", ch.Phase, phase)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Whoever is asked for heads may take a session of the same pool, however small it is.
func TestACrossingLeavesASessionToOthers(t *testing.T) {
	t.Parallel()
	for _, size := range []int32{1, 2, 3} {
		t.Run(strconv.Itoa(int(size)), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.mustWrite(t, s.key, `{"n": 1}`)
			id := s.planned(t, nil)
			pool := s.NewPool(t, size)
			c := authority.Controller{DB: pool, Actor: s.c.Actor}
			ch, err := c.Cross(t.Context(), id, func(ctx context.Context, scope string, upTo int64) ([]authority.Head, error) {
				if _, err := pool.Exec(ctx, `SELECT 1`); err != nil {
					return nil, err
				}
				return s.heads(ctx, scope, upTo)
			})
			if err != nil || ch.Outcome != "advanced" {
				t.Errorf("%s, %v", ch.Outcome, err)
			}
			if n := pool.Stat().AcquiredConns(); n != 0 {
				t.Errorf("%d sessions were not given back", n)
			}
		})
	}
}
