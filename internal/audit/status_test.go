package audit_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/audit"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
)

func TestStatusCountsUsersAndNotTheCanary(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.build(newKey())
	l.build(rail.Canary())
	firm := rail.NewUUID()
	busy := rail.Key{Firm: firm, Matter: rail.NewUUID()}
	l.demand(busy)
	l.claim("w")
	stopped := rail.Key{Firm: firm, Matter: rail.NewUUID()}
	l.demand(stopped)
	by := jobs.Actor{Name: "kim", Reason: "test"}
	if _, err := by.Park(t.Context(), l.Pool, stopped); err != nil {
		t.Fatal(err)
	}
	l.demand(rail.Key{Firm: firm, Matter: rail.NewUUID()})
	l.demand(rail.Canary())
	if _, err := by.Pause(t.Context(), l.Pool, firm); err != nil {
		t.Fatal(err)
	}
	l.fact(newKey(), "document.uploaded")

	s, err := audit.ReadStatus(t.Context(), l.Pool)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(audit.Counts{Idle: 1, Queued: 1, Running: 1, Parked: 1}, s.Jobs); d != "" {
		t.Error(d)
	}
	if s.OldestOwedKey == nil || *s.OldestOwedKey != busy || s.OldestRunningKey == nil || *s.OldestRunningKey != busy {
		t.Errorf("oldest owed %v, running %v, want %v", s.OldestOwedKey, s.OldestRunningKey, busy)
	}
	if len(s.Firms) != 1 || s.Firms[0].Firm != firm || s.Firms[0].Queued != 1 || s.Firms[0].Running != 1 || s.Firms[0].Parked != 1 {
		t.Errorf("firms %+v", s.Firms)
	}
	if len(s.Pauses) != 1 || s.Undecided != 1 || s.CanaryLanded == nil || s.SchemaVersion == 0 || s.LedgerChanged || s.Pending != nil {
		t.Errorf("%+v", s)
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
}

func TestListsAreFilteredAndBounded(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	k, other := newKey(), newKey()
	first := l.build(k)
	second := l.build(k)
	l.build(other)
	l.fact(k, "note.added")
	l.force(`UPDATE ops.matter_frame_runs SET outcome = 'expired', late_write_at = clock_timestamp() WHERE run_id = $1`, first.Token.Run)
	// An old row is found too, after the newer windows have not filled the list.
	l.force(`UPDATE ops.matter_frame_runs SET started_at = started_at - interval '30 days' WHERE run_id = $1`, first.Token.Run)

	for name, c := range map[string]struct {
		f    audit.RunFilter
		want int
	}{
		"all": {audit.RunFilter{}, 3}, "matter": {audit.RunFilter{Matter: k.Matter}, 2}, "firm": {audit.RunFilter{Firm: other.Firm}, 1},
		"late": {audit.RunFilter{Late: true}, 1}, "outcome": {audit.RunFilter{Outcome: "failed"}, 0}, "worker": {audit.RunFilter{Worker: "w1"}, 3},
		"limit": {audit.RunFilter{Limit: 1}, 1}, "since": {audit.RunFilter{Since: time.Now().Add(-time.Hour)}, 2},
	} {
		got, err := audit.Runs(t.Context(), l.Pool, c.f)
		if err != nil || len(got) != c.want {
			t.Errorf("%s: %d runs, want %d: %v", name, len(got), c.want, err)
		}
	}
	for name, c := range map[string]struct {
		f    audit.FactFilter
		want int
	}{
		"demanded": {audit.FactFilter{Verdict: "demanded"}, 3}, "ignored": {audit.FactFilter{Verdict: "ign%"}, 3}, "none": {audit.FactFilter{Verdict: "none"}, 1},
		"undecided": {audit.FactFilter{Undecided: true}, 1}, "name": {audit.FactFilter{Name: "brief.landed", Matter: k.Matter}, 2}, "limit": {audit.FactFilter{Limit: 2}, 2},
	} {
		got, err := audit.Outbox(t.Context(), l.Pool, c.f)
		if err != nil || len(got) != c.want {
			t.Errorf("%s: %d facts, want %d: %v", name, len(got), c.want, err)
		}
		if n, err := audit.OutboxCount(t.Context(), l.Pool, c.f); err != nil || (c.f.Limit == 0 && n != int64(c.want)) {
			t.Errorf("%s: counted %d, want %d: %v", name, n, c.want, err)
		}
	}
	if r, err := audit.ReadRun(t.Context(), l.Pool, second.Token.Run); err != nil || r.Generation != second.Token.Generation || r.Key != k {
		t.Errorf("run %+v, %v", r, err)
	}
	if _, err := audit.ReadRun(t.Context(), l.Pool, rail.NewUUID()); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("unknown run: %v", err)
	}
	if f, err := audit.Frames(t.Context(), l.Pool, k); err != nil || len(f) != 2 || f[0].Generation != second.Token.Generation || len(f[0].Digest) != 64 {
		t.Errorf("frames %+v, %v", f, err)
	}
	if keys, err := audit.FindMatter(t.Context(), l.Pool, k.Matter); err != nil || len(keys) != 1 || keys[0] != k {
		t.Errorf("found %v, %v", keys, err)
	}
}

func TestBulkKeysPageThroughAFilter(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	firm := rail.NewUUID()
	var old []rail.Key
	for range 5 {
		k := rail.Key{Firm: firm, Matter: rail.NewUUID()}
		l.build(k)
		old = append(old, k)
	}
	l.build(rail.Canary())
	fresh := newKey()
	c := l.build(fresh)
	l.force(`UPDATE ops.matter_frames SET builder_version = 'test/2' WHERE run_id = $1`, c.Token.Run)

	count := func(f audit.BulkFilter, want int64) {
		t.Helper()
		if n, err := audit.BulkCount(t.Context(), l.Pool, f); err != nil || n != want {
			t.Errorf("%+v: %d, want %d: %v", f, n, want, err)
		}
	}
	count(audit.BulkFilter{All: true}, 6)
	count(audit.BulkFilter{Firm: firm}, 5)
	count(audit.BulkFilter{All: true, BuilderNot: "test/2"}, 5)
	count(audit.BulkFilter{All: true, Builder: "test/2"}, 1)
	count(audit.BulkFilter{All: true, Status: "parked"}, 0)
	if _, err := audit.BulkCount(t.Context(), l.Pool, audit.BulkFilter{}); !errors.Is(err, audit.ErrUnbounded) {
		t.Errorf("a filter of nothing: %v", err)
	}
	seen := map[rail.Key]bool{}
	var after rail.Key
	for {
		page, err := audit.BulkKeys(t.Context(), l.Pool, audit.BulkFilter{All: true, BuilderNot: "test/2"}, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range page {
			if seen[k] || k.Compare(after) <= 0 {
				t.Errorf("%s again or out of order", k)
			}
			seen[k], after = true, k
		}
		if len(page) < 2 {
			break
		}
	}
	for _, k := range old {
		if !seen[k] {
			t.Errorf("%s left out", k)
		}
	}
	if len(seen) != len(old) {
		t.Errorf("%d keys, want %d", len(seen), len(old))
	}
}

func TestAuditRowsAreListedByTarget(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	k := newKey()
	l.demand(k)
	by := jobs.Actor{Name: "kim", Reason: "test"}
	if _, err := by.Park(t.Context(), l.Pool, k); err != nil {
		t.Fatal(err)
	}
	if _, err := by.Pause(t.Context(), l.Pool, k.Firm); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]int{"": 2, k.String(): 1, k.Firm.String(): 1, "ledger": 0} {
		if rows, err := audit.AuditRows(t.Context(), l.Pool, target, 0); err != nil || len(rows) != want {
			t.Errorf("%q: %+v, %v", target, rows, err)
		}
	}
}
