package audit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/audit"
	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// check returns the findings by name, all queries having worked.
func check(t *testing.T, l *ledger, o audit.CheckOptions) map[string]audit.Finding {
	t.Helper()
	found, err := audit.Check(t.Context(), l.Pool, o)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]audit.Finding{}
	for _, f := range found {
		if f.Err != "" {
			t.Errorf("%s: %s", f.Invariant, f.Err)
		}
		byName[f.Invariant] = f
	}
	return byName
}

// broken lists the invariants that are violated.
func broken(found map[string]audit.Finding) (names []string) {
	for name, f := range found {
		if f.Violations > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestAHealthyLedgerHasNoViolation(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	k := newKey()
	for range 4 {
		l.build(k)
	}
	l.build(newKey())
	l.fact(newKey(), "document.uploaded")
	l.decide()
	l.exec(`SELECT ops.prune_frames(ARRAY[$1::uuid], ARRAY[$2::uuid], 1)`, k.Firm, k.Matter)
	l.exec(`SELECT ops.prune('runs', interval '0', 2)`)
	for _, window := range []time.Duration{0, time.Hour} {
		found := check(t, l, audit.CheckOptions{Window: window})
		if b := broken(found); len(b) > 0 {
			t.Errorf("window %s: %v: %+v", window, b, found)
		}
		if want := len(audit.Invariants()); window == 0 && len(found) != want {
			t.Errorf("%d findings, want all %d", len(found), want)
		}
	}
}

// TestEachInvariantIsFoundBroken breaks each by hand, once, and wants exactly it
// found, with the right id.
func TestEachInvariantIsFoundBroken(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		also   string // a second property that the same damage breaks
		whole  bool   // found by the whole check only
		damage func(l *ledger) (example string)
	}{
		{"one_frame_per_landing", "counts_conserved", false, func(l *ledger) string {
			k := newKey()
			c := l.build(k)
			l.force(`DELETE FROM ops.matter_frames WHERE run_id = $1`, c.Token.Run)
			return k.String()
		}},
		{"one_frame_per_landing", "counts_conserved", false, func(l *ledger) string { // one in the midst of others
			k := newKey()
			l.build(k)
			c := l.build(k)
			l.build(k)
			l.force(`DELETE FROM ops.matter_frames WHERE run_id = $1`, c.Token.Run)
			return k.String()
		}},
		{"one_frame_per_landing", "", true, func(l *ledger) string { // a ledger row that was set back
			k := newKey()
			l.build(k)
			l.force(`UPDATE ops.matter_frame_jobs SET landed_generation = 1, requested_generation = 1, claimed_generation = 1 WHERE matter_id = $1`, k.Matter)
			return k.String()
		}},
		{"one_frame_per_landing", "", true, func(l *ledger) string { // or that went
			k := newKey()
			l.build(k)
			l.force(`DELETE FROM ops.matter_frame_jobs WHERE matter_id = $1`, k.Matter)
			return k.String()
		}},
		{"frame_without_landed_run", "counts_conserved", true, func(l *ledger) string {
			k := newKey()
			c := l.build(k)
			l.force(`DELETE FROM ops.matter_frame_runs WHERE run_id = $1`, c.Token.Run)
			return k.String()
		}},
		{"frame_without_landed_run", "counts_conserved", false, func(l *ledger) string {
			k := newKey()
			c := l.build(k)
			l.force(`UPDATE ops.matter_frame_runs SET outcome = 'failed' WHERE run_id = $1`, c.Token.Run)
			return k.String()
		}},
		{"stuck_running", "", false, func(l *ledger) string {
			k := newKey()
			l.demand(k)
			l.claim("w1")
			l.expire(k, 11*time.Minute)
			return k.String()
		}},
		{"retired_paths", "", false, func(l *ledger) string {
			l.exec(`INSERT INTO ops.writers (name, kind, database_roles, status, retired_at) VALUES ('old', 'external', '{old}', 'retired', now())`)
			l.exec(`INSERT INTO ops.writer_paths (writer, kind, path, tried_at, refused, answer) VALUES ('old', 'role', 'old', now(), false, 'INSERT')`)
			return "old role old"
		}},
		{"forgotten_queued", "", false, func(l *ledger) string {
			k := newKey()
			l.demand(k)
			l.exec(`UPDATE ops.matter_frame_jobs SET queued_at = queued_at - interval '1 hour', not_before = not_before - interval '31 minutes'`)
			return k.String()
		}},
		{"undecided_facts", "", false, func(l *ledger) string {
			id := l.fact(newKey(), "document.uploaded")
			l.age(id, 6*time.Minute)
			return id.String()
		}},
		{"undecided_facts", "", false, func(l *ledger) string { // older than the window: found through the list
			id := l.fact(newKey(), "document.uploaded")
			l.age(id, 30*24*time.Hour)
			return id.String()
		}},
		{"undecided_facts", "", false, func(l *ledger) string { // fell off the list
			id := l.fact(newKey(), "document.uploaded")
			l.age(id, 6*time.Minute)
			l.force(`DELETE FROM ops.outbox_undecided`)
			return id.String()
		}},
		{"receipts_without_fact", "", false, func(l *ledger) string {
			id := l.fact(newKey(), "document.uploaded")
			l.decide()
			l.force(`DELETE FROM ops.domain_event_outbox WHERE event_id = $1`, id)
			return id.String()
		}},
		{"counts_conserved", "", true, func(l *ledger) string {
			l.build(newKey())
			l.force(`UPDATE ops.retention_counters SET taken = taken + 1 WHERE what = 'frames'`)
			return ""
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			l.build(newKey()) // a sound neighbour
			example := c.damage(l)
			for _, window := range []time.Duration{0, time.Hour} {
				found := check(t, l, audit.CheckOptions{Window: window})
				var want []string
				if window == 0 || !c.whole {
					want = append(want, c.name)
				}
				if window == 0 && c.also != "" {
					want = append(want, c.also)
				}
				slices.Sort(want)
				if d := cmp.Diff(want, broken(found)); d != "" {
					t.Errorf("window %s: %s", window, d)
				}
				if f := found[c.name]; f.Violations > 0 && example != "" && (f.Violations != 1 || !slices.Equal(f.Examples, []string{example})) {
					t.Errorf("window %s: %+v, want example %s", window, f, example)
				}
			}
		})
	}
}

// age sets back the time at which a fact was recorded.
func (l *ledger) age(event rail.UUID, by time.Duration) {
	l.t.Helper()
	l.force(`UPDATE ops.domain_event_outbox SET recorded_at = recorded_at - $2::interval WHERE event_id = $1`, event, by)
	l.force(`UPDATE ops.outbox_undecided SET recorded_at = recorded_at - $2::interval WHERE event_id = $1`, event, by)
}

func TestLostFactSaysThatNobodyWillLookAgain(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	id := l.fact(newKey(), "document.uploaded")
	l.age(id, 6*time.Minute)
	if f := check(t, l, audit.CheckOptions{})["undecided_facts"]; strings.Contains(f.Detail, "some of them are on no list") {
		t.Errorf("a fact that only waits: %s", f.Detail)
	}
	l.force(`DELETE FROM ops.outbox_undecided`)
	if f := check(t, l, audit.CheckOptions{})["undecided_facts"]; !strings.Contains(f.Detail, "some of them are on no list") {
		t.Errorf("a fact that was lost: %s", f.Detail)
	}
}

func TestAPauseOrAClaimOfTheFirmIsNotForgetting(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	k := newKey()
	l.demand(k)
	l.exec(`UPDATE ops.matter_frame_jobs SET queued_at = queued_at - interval '1 hour', not_before = not_before - interval '1 hour'`)
	forgotten := func() int64 { return check(t, l, audit.CheckOptions{})["forgotten_queued"].Violations }
	if forgotten() != 1 {
		t.Fatal("not found")
	}
	by := jobs.Actor{Name: "ops", Reason: "maintenance"}
	if _, err := by.Pause(t.Context(), l.Pool, k.Firm); err != nil {
		t.Fatal(err)
	}
	if forgotten() != 0 {
		t.Error("found though its firm is paused")
	}
	if _, err := by.Resume(t.Context(), l.Pool, k.Firm); err != nil {
		t.Fatal(err)
	}
	if forgotten() != 0 {
		t.Error("found right after the pause has ended")
	}
	l.force(`UPDATE ops.audit_log SET at = at - interval '40 minutes'`)
	if forgotten() != 1 {
		t.Error("not found long after the pause has ended")
	}
	other := rail.Key{Firm: k.Firm, Matter: rail.NewUUID()}
	if got, err := runs.ClaimKey(t.Context(), l.Pool, other, rail.Standard, runs.ClaimOptions{Worker: "w", Builder: "b", Lease: time.Minute}); err != nil || len(got) != 1 {
		t.Fatalf("claim: %v, %v", got, err)
	}
	if forgotten() != 0 {
		t.Error("found though its firm was just served")
	}
}

func TestChangedOutcomesAreCountedAgainstWhatWasKnown(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	c := l.build(newKey())
	known := int64(0)
	o := audit.CheckOptions{Refusals: &known}
	if f := check(t, l, o)["outcome_changed"]; f.Violations != 0 {
		t.Fatalf("%+v", f)
	}
	_, err := l.Pool.Exec(t.Context(), `UPDATE ops.matter_frame_runs SET outcome = 'failed' WHERE run_id = $1`, c.Token.Run)
	if pg.Constraint(err) != "runs_outcome_is_final" {
		t.Fatalf("update of an ended run: %v", err)
	}
	if f := check(t, l, o)["outcome_changed"]; f.Violations != 1 || !strings.Contains(f.Detail, "1 tries refused") {
		t.Errorf("%+v", f)
	}
	if f := check(t, l, audit.CheckOptions{})["outcome_changed"]; f.Violations != 0 || !strings.Contains(f.Detail, "1 tries refused") {
		t.Errorf("without a known count: %+v", f)
	}
}

func TestAFailedQueryIsAnErrorAndNoZero(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.exec(`ALTER TABLE ops.trigger_receipts RENAME TO gone`)
	found, err := audit.Check(t.Context(), l.Pool, audit.CheckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, f := range found {
		if f.Err != "" {
			failed++
			if f.Healthy() {
				t.Errorf("%s is healthy in spite of %s", f.Invariant, f.Err)
			}
		}
	}
	if failed != 2 {
		t.Errorf("%d findings failed, want those two that read receipts", failed)
	}
	l.exec(`ALTER SCHEMA ops RENAME TO away`)
	if _, err := audit.Check(t.Context(), l.Pool, audit.CheckOptions{}); err == nil {
		t.Error("a check that could ask nothing has no error")
	}
}

func TestACheckIsBoundedInTime(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	tx, err := l.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `LOCK TABLE ops.matter_frames IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	found, err := audit.Check(t.Context(), l.Pool, audit.CheckOptions{Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(found[0].Err, "statement timeout") {
		t.Errorf("%+v", found[0])
	}
}

func TestFencedIsNoViolation(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	k := newKey()
	l.demand(k)
	a := l.claim("a")
	l.expire(k, time.Second)
	if _, err := runs.ClaimKey(t.Context(), l.Pool, k, rail.Standard, runs.ClaimOptions{Worker: "b", Builder: "t", Lease: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if err := l.land(a); !errors.Is(err, runs.ErrFenced) {
		t.Fatal(err)
	}
	if b := broken(check(t, l, audit.CheckOptions{})); len(b) > 0 {
		t.Error(b)
	}
}
