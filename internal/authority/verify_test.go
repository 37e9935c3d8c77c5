package authority_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/rail"
)

// What may not cross, each done by hand once, as only a superuser can: the crossing is
// blocked, its report names the matter, and the scope goes back to its writer.
func TestEachInvariantBlocks(t *testing.T) {
	t.Parallel()
	for check, violation := range map[string]string{
		"ids_unique": `UPDATE ops.matter_frames SET source_sequence = (SELECT max(source_sequence) FROM ops.matter_frames)`,
		"revisions_in_sequence": `UPDATE ops.matter_frames SET source_sequence = source_sequence - 1000
			WHERE generation = (SELECT max(generation) FROM ops.matter_frames)`,
		"current_is_highest": `UPDATE ops.matter_frame_jobs SET landed_generation = landed_generation - 1, run_status = 'queued', owed_since = now(), queued_at = now(), not_before = now()`,
		"frames_have_runs":   `UPDATE ops.matter_frame_runs SET outcome = 'failed'`,
		"intents_one_result": `INSERT INTO ops.write_intents (intent_id, firm_id, matter_id, kind, payload_digest, epoch, writer, outcome, result, result_digest, decided_at)
			SELECT gen_random_uuid(), firm_id, matter_id, 'brief.regenerate', sha256('p'), 1, 'old', 'accepted', '{"a":1}', sha256('another'), now() FROM ops.matter_frame_jobs`,
		"relations_valid": `DELETE FROM ops.matter_frame_jobs`,
		"outbox_accounted": `UPDATE ops.matter_frames SET source = 'rail', source_sequence = NULL, built_at = now() + interval '1 minute';
			INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) SELECT firm_id, matter_id, 'document.uploaded' FROM ops.matter_frame_jobs`,
		"imported": `UPDATE public.legacy_briefs SET revision = nextval('public.legacy_revisions')`,
		"intents_unknown": `INSERT INTO ops.write_intents (intent_id, firm_id, matter_id, kind, payload_digest, epoch, writer, outcome)
			SELECT gen_random_uuid(), firm_id, matter_id, 'brief.regenerate', sha256('p'), 1, 'old', 'unknown' FROM ops.matter_frame_jobs`,
		"digests": `UPDATE ops.matter_frames SET digest = sha256('another')`,
	} {
		t.Run(check, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.mustWrite(t, s.key, `{"n": 1}`)
			s.imports(t, s.scope)
			s.mustWrite(t, s.key, `{"n": 2}`)
			id := s.planned(t, nil)
			s.byHand(t, violation)
			ch, err := s.c.Cross(t.Context(), id, s.heads)
			if !errors.Is(err, authority.ErrBlocked) || ch.Outcome != "aborted" {
				t.Fatalf("%+v, %v", ch, err)
			}
			s.wantFence(t, "open", "old", 1)
			reports, err := authority.Reports(t.Context(), s.Pool, id)
			if err != nil || len(reports) != 1 || reports[0].Passed {
				t.Fatalf("%+v, %v", reports, err)
			}
			for _, f := range reports[0].Findings {
				if f.Check == check && f.Matter == s.key.Matter.String() {
					return
				}
			}
			t.Errorf("no finding of %s names the matter: %+v", check, reports[0].Findings)
		})
	}
}

// byHand does what the tables would refuse.
func (s *stage) byHand(t *testing.T, sql string) {
	t.Helper()
	if _, err := s.Pool.Exec(t.Context(), `SET LOCAL session_replication_role = replica; ALTER TABLE public.legacy_briefs DISABLE TRIGGER write_fence;
		ALTER TABLE ops.write_intents DISABLE TRIGGER write_fence; `+sql+`;`); err != nil {
		t.Fatal(err)
	}
	exec(t, s.Pool, `ALTER TABLE public.legacy_briefs ENABLE ALWAYS TRIGGER write_fence; ALTER TABLE ops.write_intents ENABLE ALWAYS TRIGGER write_fence`)
}

// A report that did not pass, or of another sealing, opens nothing.
func TestNoAdvanceWithoutItsReport(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	id := s.planned(t, nil)
	s.until(t, id, "sealed")
	_, err := s.c.Advance(t.Context(), id)
	wantState(t, "advance without a report", err, "RF422")
	s.byHand(t, `UPDATE ops.matter_frames SET digest = sha256('another')`)
	ch, report, err := s.c.Verify(t.Context(), id, s.heads)
	if err != nil || report.Passed || ch.Phase != "sealed" {
		t.Fatalf("%s, %+v, %v", ch.Phase, report, err)
	}
	_, err = s.c.Advance(t.Context(), id)
	wantState(t, "advance with a report that failed", err, "RF422")
	ch, report, err = s.c.Verify(t.Context(), id, nil)
	if err != nil || !report.Passed || ch.Phase != "verified" {
		t.Fatalf("%s, %+v, %v", ch.Phase, report, err)
	}
	ch, report, err = s.c.Verify(t.Context(), id, s.heads)
	if err != nil || report.Passed {
		t.Fatalf("%s, %+v, %v", ch.Phase, report, err)
	}
	_, err = s.c.Advance(t.Context(), id)
	wantState(t, "advance with a later report that failed", err, "RF422")
	if ch, report, err = s.c.Verify(t.Context(), id, nil); err != nil || !report.Passed {
		t.Fatalf("%s, %+v, %v", ch.Phase, report, err)
	}
	s.byHand(t, `UPDATE ops.write_fence_reports SET sealed_at = sealed_at - interval '1 second'`)
	_, err = s.c.Advance(t.Context(), id)
	s.wantRefusal(t, err, "change_needs_its_report")
	s.wantFence(t, "sealed", "old", 1)
}

// A relation that must move together, and is cut, keeps its scope where it is; so does a
// hold, a budget, and a cohort that has not been through everything.
func TestAPlanIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	exec(t, s.Pool, `CREATE TABLE public.legacy_links (matter_id uuid PRIMARY KEY REFERENCES public.legacy_briefs (matter_id), parent uuid NOT NULL,
		CONSTRAINT of_parent FOREIGN KEY (parent) REFERENCES public.legacy_briefs (matter_id))`)
	other := rail.Key{Firm: s.key.Firm, Matter: rail.NewUUID()}
	for scopeOf(other) == s.scope {
		other.Matter = rail.NewUUID()
	}
	s.mustWrite(t, s.key, `{"n": 1}`)
	s.mustWrite(t, other, `{"n": 1}`)
	exec(t, s.Pool, `INSERT INTO public.legacy_links VALUES ($1, $2)`, s.key.Matter, other.Matter)
	if err := s.c.Guard(t.Context(), authority.Guard{Table: "public.legacy_links", Key: "matter_id", Writer: "old"}); err != nil {
		t.Fatal(err)
	}
	exec(t, s.Pool, `GRANT INSERT, UPDATE ON public.legacy_links TO `+s.oldRole)
	m := authority.Move{Change: rail.NewUUID(), Scope: s.scope, To: "rail", Budget: time.Minute}
	_, err := s.c.Plan(t.Context(), m)
	s.wantRefusal(t, err, "change_plan_blocked")
	m.Relations = map[string]string{"public.legacy_links.of_parent": authority.Projection}
	m.Budget = time.Microsecond
	_, err = s.c.Plan(t.Context(), m)
	s.wantRefusal(t, err, "change_over_budget")
	m.Budget = time.Minute
	hold := value[int64](t, s.Pool, `SELECT ops.raise_hold(NULL, 'late_facts', '{}')`)
	_, err = s.c.Plan(t.Context(), m)
	wantState(t, "a plan in spite of a hold", err, "RF423")
	if was, err := s.c.Release(t.Context(), hold, "routing"); !was || err != nil {
		t.Fatalf("%v, %v", was, err)
	}
	if _, err := s.c.Plan(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.imports(t, s.scope)
	if _, _, err := s.c.Shadow(t.Context(), m.Change, authority.ShadowOptions{}); err != nil {
		t.Fatal(err)
	}
	if ch, err := s.c.Cross(t.Context(), m.Change, nil); err != nil || ch.Outcome != "advanced" {
		t.Fatalf("%+v, %v", ch, err)
	}
	next := authority.Move{Change: rail.NewUUID(), Scope: scopeOf(other), To: "rail", Cohort: "second", Budget: time.Minute}
	next.Relations = m.Relations
	_, err = s.c.Plan(t.Context(), next)
	if s.wantRefusal(t, err, "change_plan_blocked"); !strings.Contains(err.Error(), "cohort first has not been through: build") {
		t.Errorf("a second cohort: %v", err)
	}
	next.Cohort = "" // the first one
	if _, err := s.c.Plan(t.Context(), next); err != nil {
		t.Errorf("the first cohort goes on: %v", err)
	}
}
