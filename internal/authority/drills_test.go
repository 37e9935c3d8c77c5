package authority_test

import (
	"testing"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// sealedWith takes a change to its seal and then brings in what the old writer committed
// while the shadow was compared.
func (s *stage) sealedWith(t *testing.T, id rail.UUID) {
	t.Helper()
	for _, step := range []func() (authority.Change, error){
		func() (authority.Change, error) { return s.c.Close(t.Context(), id) },
		func() (authority.Change, error) { return s.c.Drain(t.Context(), id) },
		func() (authority.Change, error) { return s.c.Seal(t.Context(), id) },
	} {
		if _, err := step(); err != nil {
			t.Fatal(err)
		}
	}
	s.imports(t, s.scope)
}

// Drill: the last import has committed, and whoever verifies is killed, at each of its
// statements. The next controller verifies what is there and crosses; nothing is brought
// in twice.
func TestAVerifierKilledBehindTheImport(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	deaths := 0
	for left, killed := 1, true; killed; left++ {
		s.mustWrite(t, s.key, `{"n": 1}`)
		id := s.planned(t, nil)
		s.mustWrite(t, s.key, `{"n": 2}`)
		s.sealedWith(t, id)
		frames := value[int64](t, s.Pool, `SELECT count(*) FROM ops.matter_frames`)
		if killed = s.process(t, id, left, "unsent"); killed {
			deaths++
			if s.process(t, id, -1, "") {
				t.Fatal("nobody told the second to die")
			}
		}
		ch, err := authority.ChangeOf(t.Context(), s.Pool, id)
		if err != nil || ch.Outcome != "advanced" || ch.Report == nil {
			t.Fatalf("statement %d: %+v, %v", left, ch, err)
		}
		s.nothingLost(t)
		if n := value[int64](t, s.Pool, `SELECT count(*) FROM ops.matter_frames`); n != frames {
			t.Errorf("statement %d: %d frames behind the seal, %d afterwards", left, frames, n)
		}
		s.back(t, id)
	}
	if deaths < 3 { // the change, what is compared, the report
		t.Errorf("killed at %d statements", deaths)
	}
}

// Drill: authority has moved, and the new writer is down before its first command. The
// fence stays where it is, whatever a watchdog sees; demand waits, and is served once
// the writer is back.
func TestANewWriterThatIsDownKeepsItsAuthority(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	there := s.cross(t)
	exec(t, s.Pool, `SELECT ops.operator_demand(ARRAY[$1::uuid], ARRAY[$2::uuid], 1::smallint, 'counsel', 'a new exhibit')`, s.key.Firm, s.key.Matter)
	for range 3 {
		if ended := value[int64](t, s.Pool, `SELECT count(*) FROM ops.abort_overdue('a daemon')`); ended != 0 {
			t.Fatalf("the watchdog ends %d changes", ended)
		}
		wantState(t, "the old writer while the new one is down", s.write(t.Context(), s.old, s.key, `{"n": 2}`), "RF409")
	}
	s.wantFence(t, "open", "rail", 2)
	if ch, err := authority.ChangeOf(t.Context(), s.Pool, there.ID); err != nil || ch.Outcome != "advanced" || ch.Phase != "advanced" {
		t.Fatalf("%+v, %v", ch, err)
	}
	got, err := runs.Claim(t.Context(), s.Pool, 1, runs.ClaimOptions{Worker: "back again", Builder: "b", Lease: time.Minute})
	if err != nil || len(got) != 1 || got[0].Claim.Key != s.key {
		t.Fatalf("claimed %+v, %v", got, err)
	}
	if _, err := runs.Land(t.Context(), s.Pool, landing(got[0].Claim)); err != nil {
		t.Fatal(err)
	}
	s.CheckLedger(t)
}
