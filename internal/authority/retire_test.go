package authority_test

import (
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/authority"
)

// everything crosses: all 64 buckets are the rail's, and their windows over.
func (s *stage) everything(t *testing.T) {
	t.Helper()
	for _, scope := range allScopes() {
		s.scope = scope
		id := s.planned(t, nil)
		if ch, err := s.c.Cross(t.Context(), id, s.heads); err != nil || ch.Outcome != "advanced" {
			t.Fatalf("%s: %+v, %v", scope, ch, err)
		}
		if _, err := s.c.Complete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if ch, err := s.c.Retire(t.Context(), id); err != nil || ch.Phase != "retired" {
			t.Fatalf("%+v, %v", ch, err)
		}
	}
}

// After the last bucket the old writer can write nothing by any path, a way that is
// planted is found, and the fence can go.
func TestRetirement(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	_, err := s.c.RetireWriter(t.Context(), "old", nil)
	wantState(t, "the retirement of a writer with authority", err, "23514")
	_, err = s.c.Remove(t.Context())
	s.wantRefusal(t, err, "remove_has_guards")
	s.everything(t)
	dsn := s.As(t, s.oldRole)                // asked while it is let in
	still, err := s.old.Acquire(t.Context()) // a session that outlives the role's login
	if err != nil {
		t.Fatal(err)
	}
	defer still.Release()
	left, err := s.c.RetireWriter(t.Context(), "old", s.Pool)
	if err != nil || len(left) != 0 {
		t.Fatalf("what is left: %+v, %v", left, err)
	}
	s.scope = scopeOf(s.key)
	wantState(t, "a write of the retired role", s.write(t.Context(), still, s.key, `{"n": 2}`), "42501")
	_, err = still.Exec(t.Context(), `SELECT ops.admit($1, 'old')`, s.scope)
	wantState(t, "the retired role's admission", err, "42501")
	_, err = pgx.Connect(t.Context(), dsn)
	wantState(t, "the retired role's login", err, "28000")
	_, err = s.Pool.Exec(t.Context(), `SELECT ops.admit($1, 'old')`, s.scope)
	wantState(t, "admission of a retired writer", err, "RF410")

	canary := authority.Canary{DB: s.Pool, Log: slog.New(slog.DiscardHandler)}
	if open, err := canary.Turn(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("ways are open: %+v, %v", open, err)
	}
	exec(t, s.Pool, `GRANT INSERT ON public.legacy_briefs TO `+s.oldRole)
	if open, err := canary.Turn(t.Context()); err != nil || len(open) != 1 || open[0].Path != s.oldRole {
		t.Errorf("a planted way is not found: %+v, %v", open, err)
	}
	if holds, err := authority.Holds(t.Context(), s.Pool, false); err != nil || len(holds) != 1 || holds[0].Watch != "retired_paths" {
		t.Errorf("%+v, %v", holds, err)
	}
	exec(t, s.Pool, `REVOKE INSERT ON public.legacy_briefs FROM `+s.oldRole)
	s.remove(t)
}

func (s *stage) remove(t *testing.T) {
	t.Helper()
	if err := s.c.Unguard(t.Context(), "public.legacy_briefs"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.c.Remove(t.Context()); err != nil || n != 64 {
		t.Fatalf("%d, %v", n, err)
	}
	if won, err := s.build(t, s.key); !won || err != nil {
		t.Errorf("the rail without a fence: %v, %v", won, err)
	}
	if n := value[int64](t, s.Pool, `SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'write_fence%'`); n != 0 {
		t.Errorf("%d triggers are left", n)
	}
	if n := value[int64](t, s.Pool, `SELECT count(*) FROM ops.write_fence_changes`); n != 64 {
		t.Errorf("history has %d changes", n)
	}
}

// A ledger that came out of a backup stays closed, scope by scope, until a person opens
// a new epoch.
func TestARestoredLedgerStaysClosed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	if n, err := s.c.CloseRestored(t.Context()); err != nil || n != 64 {
		t.Fatalf("%d, %v", n, err)
	}
	s.wantFence(t, "sealed", "old", 1)
	wantState(t, "a write into a restored ledger", s.write(t.Context(), s.old, s.key, `{"n": 2}`), "RF503")
	if aborted := value[int64](t, s.Pool, `SELECT count(*) FROM ops.abort_overdue('test')`); aborted != 0 {
		t.Errorf("the watchdog opened %d restored scopes", aborted)
	}
	restored := s.fence(t).Change
	if ch, err := s.c.Abort(t.Context(), restored); err != nil || ch.Outcome != "" {
		t.Errorf("an abort ends it: %+v, %v", ch, err)
	}
	if ch, err := s.c.Cross(t.Context(), restored, nil); err == nil || ch.Outcome != "" {
		t.Errorf("it is crossed like any other: %+v", ch)
	}
	s.wantFence(t, "sealed", "old", 1)
	d, err := authority.Doctor(t.Context(), s.Pool, s.scope)
	if err != nil || d.Next != "railctl authority open-restored "+s.scope {
		t.Errorf("%+v, %v", d, err)
	}
	_, err = s.c.OpenRestored(t.Context(), s.scope, "old", 1)
	s.wantRefusal(t, err, "restore_needs_a_later_epoch")
	if ch, err := s.c.OpenRestored(t.Context(), s.scope, "old", 7); err != nil || *ch.ToEpoch != 7 {
		t.Fatalf("%+v, %v", ch, err)
	}
	s.wantFence(t, "open", "old", 7)
	s.mustWrite(t, s.key, `{"n": 2}`)
}

// The doctor names one safe step at each state, and that a table has lost its fence.
func TestTheDoctorNamesOneStep(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	want := func(next string) {
		t.Helper()
		d, err := authority.Doctor(t.Context(), s.Pool, s.scope)
		if err != nil || d.Next != next || d.Why == "" {
			t.Fatalf("%+v, %v, want %q", d, err, next)
		}
	}
	want("railctl authority plan " + s.scope)
	id := s.planned(t, nil)
	want("railctl authority cross " + id.String())
	s.until(t, id, "sealed")
	want("railctl authority cross " + id.String())
	if _, err := s.c.Cross(t.Context(), id, s.heads); err != nil {
		t.Fatal(err)
	}
	want("")
	if _, err := s.c.Complete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	want("railctl authority retire " + id.String())
	exec(t, s.Pool, `ALTER TABLE public.legacy_briefs DISABLE TRIGGER write_fence`)
	want("railctl authority guard legacy_briefs")
	if d, err := authority.Doctor(t.Context(), s.Pool, "fixture/none"); err != nil || d.Fence != nil || d.Next == "" {
		t.Errorf("%+v, %v", d, err)
	}
}

// The rail itself is never retired, and nobody is not somebody: neither loses a right.
func TestOnlyAnotherWriterIsRetired(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, writer := range []string{"rail", "nobody"} {
		rights, err := s.c.RetireWriter(t.Context(), writer, s.Pool)
		if wantState(t, "retiring "+writer, err, "RF422"); rights != nil {
			t.Errorf("%s: %v", writer, rights)
		}
	}
}
