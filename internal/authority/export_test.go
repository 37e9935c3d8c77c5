package authority_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/rail"
)

// toExport is what the old writer's importer is given to take over, by position.
func (s *stage) toExport(t *testing.T) (seqs []int64) {
	t.Helper()
	return value[[]int64](t, s.importer, `SELECT coalesce(array_agg(seq ORDER BY seq), '{}') FROM ops.to_export($1, 100)`, rail.Bucket(s.key.Matter))
}

// What an exporter names was exported, and nothing else: a frame that commits late has
// a lower position than one that was taken before.
func TestOnlyWhatWasTakenIsExported(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	there := s.cross(t)
	const told = `INSERT INTO ops.compatibility_log (firm_id, matter_id, generation, epoch, digest) VALUES ($1, $2, $3, 2, sha256('x'))`
	late, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, late, told, s.key.Firm, s.key.Matter, 101)
	exec(t, s.Pool, told, s.key.Firm, s.key.Matter, 102)
	taken := s.toExport(t)
	if err := late.Commit(t.Context()); err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	if n := value[int64](t, s.importer, `SELECT ops.note_exported($1)`, taken); n != 1 {
		t.Errorf("%d rows are noted as exported", n)
	}
	if left := s.toExport(t); len(left) != 1 || left[0] >= taken[0] {
		t.Errorf("after %v is left %v", taken, left)
	}
	s.waysBack(t, there.ID, "exported")
}

// waysBack fails unless exactly the named conditions of a way back are not met, beside
// the drill.
func (s *stage) waysBack(t *testing.T, of rail.UUID, unmet ...string) {
	t.Helper()
	exec(t, s.Pool, `UPDATE ops.compatibility_log SET committed_at = committed_at - interval '1 hour' WHERE exported_at IS NULL`)
	conditions, err := authority.Conditions(t.Context(), s.Pool, of)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range conditions {
		if want := len(unmet) == 0 || unmet[0] != c.Name; c.Met != want && c.Name != "old_side_ready" {
			t.Errorf("%s: met %v, %s", c.Name, c.Met, c.Detail)
		}
	}
}

// The frames are given to the importer of the writer that may come back, with what is
// in them, and to nobody else; what one window left behind is no matter of the next.
func TestAnExportIsOfOneWindow(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	there := s.cross(t)
	if won, err := s.build(t, s.key); !won || err != nil {
		t.Fatal(won, err)
	}
	if by := value[string](t, s.importer, `SELECT frame->>'by' FROM ops.to_export(NULL, 100)`); by != "rail" {
		t.Errorf("the frame is by %s", by)
	}
	if n := value[int64](t, s.Pool, `SELECT count(*) FROM ops.to_export(NULL, 100)`); n != 0 {
		t.Errorf("%d frames for somebody else", n)
	}
	_, err := s.old.Exec(t.Context(), `SELECT ops.to_export(NULL, 100)`)
	wantState(t, "an export by the writer itself", err, "42501")

	back := s.planBackUnexported(t, there.ID)
	ch, err := s.c.Cross(t.Context(), back, nil)
	if !errors.Is(err, authority.ErrBlocked) || ch.Outcome != "aborted" {
		t.Fatalf("a way back to a side that was not told everything: %s, %v", ch.Phase, err)
	}
	s.wantFinding(t, back, "exported")
	s.back(t, there.ID)
	exec(t, s.Pool, `UPDATE ops.compatibility_log SET exported_at = NULL`)
	s.mustWrite(t, s.key, `{"n": 2}`)
	again := s.cross(t)
	if left := s.toExport(t); len(left) != 0 {
		t.Errorf("%v of an earlier window", left)
	}
	s.waysBack(t, again.ID)
}

// planBackUnexported plans a way back that is ready to close, whatever is to be exported.
func (s *stage) planBackUnexported(t *testing.T, of rail.UUID) rail.UUID {
	t.Helper()
	if err := s.c.Exercised(t.Context(), s.scope, "restore"); err != nil {
		t.Fatal(err)
	}
	ch, _, err := s.c.Rollback(t.Context(), of, authority.Move{Change: rail.NewUUID(), Deadline: time.Minute, Budget: time.Minute})
	if err == nil {
		ch, _, err = s.c.Shadow(t.Context(), ch.ID, authority.ShadowOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return ch.ID
}

func (s *stage) wantFinding(t *testing.T, change rail.UUID, check string) {
	t.Helper()
	reports, err := authority.Reports(t.Context(), s.Pool, change)
	if err != nil || len(reports) == 0 {
		t.Fatal(reports, err)
	}
	for _, f := range reports[0].Findings {
		if f.Check == check && f.Matter == s.key.Matter.String() {
			return
		}
	}
	t.Errorf("no finding of %s names the matter: %+v", check, reports[0].Findings)
}

// Facts of the rail's own scopes are sent on before it gives one away; another writer's
// end is not counted in facts.
func TestFactsAreSentOnBeforeAWayBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	exec(t, s.Pool, `UPDATE ops.ledger SET publishing = 'required'`)
	exec(t, s.Pool, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, 'document.uploaded')`, s.key.Firm, s.key.Matter)
	exec(t, s.Pool, `SELECT setval('public.legacy_revisions', 1000000)`)
	s.mustWrite(t, s.key, `{"n": 1}`)
	there := s.cross(t)
	if won, err := s.build(t, s.key); !won || err != nil {
		t.Fatal(won, err)
	}
	exec(t, s.importer, `SELECT ops.note_exported(array_agg(seq)) FROM ops.to_export(NULL, 100)`)
	back := s.planBackUnexported(t, there.ID)
	if _, err := s.c.Cross(t.Context(), back, nil); !errors.Is(err, authority.ErrBlocked) {
		t.Fatal(err)
	}
	s.wantFinding(t, back, "publication")
}

// A hold keeps nobody from going back, nor from a drill.
func TestAHoldOnAllHoldsNoWayBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	there := s.cross(t)
	exec(t, s.Pool, `SELECT ops.raise_hold(NULL, 'late_facts', '{}')`)
	if back := s.back(t, there.ID); back.Outcome != "advanced" {
		t.Fatalf("%+v", back)
	}
}

// The dry run of the way back says what went wrong in it.
func TestTheReversePathIsProved(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const prove = `SELECT coalesce(ops.prove_reverse('old', $1), '')`
	if why := value[string](t, s.Pool, prove, "rail"); why != "" {
		t.Error(why)
	}
	if why := value[string](t, s.Pool, prove, "nobody"); !strings.Contains(why, "the new one must be another, and active") {
		t.Errorf("a way back from nobody: %q", why)
	}
	exec(t, s.Pool, `CREATE OR REPLACE FUNCTION ops.way_back_stands(c ops.write_fence_changes, at timestamptz) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		PERFORM ops.change_denied('RF422', 'change_window_closed', 'never'); END $$`)
	if why := value[string](t, s.Pool, prove, "rail"); !strings.Contains(why, "never") {
		t.Errorf("a way back that is always closed: %q", why)
	}
}
