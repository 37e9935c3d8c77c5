package authority_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/rail"
)

// A watch beyond its limit stops the next crossing and takes nothing back; a person
// releases it for a reason of a class.
func TestAWatchHoldsWidening(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	s.cross(t)
	limits, quiet := authority.DefaultLimits(), slog.New(slog.DiscardHandler)
	if over, err := authority.WatchAll(t.Context(), s.Pool, limits, quiet); err != nil || len(over) != 0 {
		t.Fatalf("%+v, %v", over, err)
	}
	exec(t, s.Pool, `SELECT ops.note_evidence($1, 'late_fact', 'old', 1, 5, '{}')`, s.scope)
	for range 2 { // one hold, however often it is seen
		if over, err := authority.WatchAll(t.Context(), s.Pool, limits, quiet); err != nil || len(over) != 1 || over[0].Watch != "late_facts" {
			t.Fatalf("%+v, %v", over, err)
		}
	}
	holds, err := authority.Holds(t.Context(), s.Pool, false)
	if err != nil || len(holds) != 1 || holds[0].Scope != s.scope {
		t.Fatalf("%+v, %v", holds, err)
	}
	s.wantFence(t, "open", "rail", 2)
	exec(t, s.Pool, `SELECT ops.raise_hold(NULL, 'late_facts', '{}')`)
	next := authority.Move{Change: rail.NewUUID(), Scope: "matters/bucket-" + map[bool]string{true: "00", false: "01"}[s.scope != "matters/bucket-00"], To: "rail", Budget: time.Minute}
	if _, err := s.c.Plan(t.Context(), next); err == nil {
		t.Error("a scope is planned in spite of a hold on all")
	}
	if _, err := s.c.Release(t.Context(), holds[0].ID, "boredom"); err == nil {
		t.Error("released for no class")
	}
	all, err := authority.Holds(t.Context(), s.Pool, false)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, h := range all {
		if was, err := s.c.Release(t.Context(), h.ID, "data_integrity"); !was || err != nil {
			t.Fatalf("%v, %v", was, err)
		}
	}
	if was, err := s.c.Release(t.Context(), holds[0].ID, "routing"); was || err != nil {
		t.Errorf("released twice: %v, %v", was, err)
	}
	if _, err := s.c.Plan(t.Context(), next); err != nil {
		t.Error(err)
	}
}

// An address of a retired writer is tried: gone or silent is refused, any success is a
// way that is open.
func TestARetiredRouteIsTried(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	answers := map[string]int{"/gone": http.StatusGone, "/open": http.StatusOK, "/moved": http.StatusFound}
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(answers[r.URL.Path]) }))
	t.Cleanup(old.Close)
	s.everything(t)
	for path := range answers {
		if err := s.c.WatchPath(t.Context(), authority.Path{Writer: "old", Kind: authority.PathRoute, Path: old.URL + path}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.c.RetireWriter(t.Context(), "old", s.Pool); err != nil {
		t.Fatal(err)
	}
	canary := authority.Canary{DB: s.Pool, Log: slog.New(slog.DiscardHandler)}
	if open, err := canary.Turn(t.Context()); err != nil || len(open) != 2 {
		t.Errorf("%+v, %v", open, err)
	}
	paths, err := authority.Paths(t.Context(), s.Pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		want := p.Kind == authority.PathRole || p.Path == old.URL+"/gone"
		if p.Refused == nil || *p.Refused != want {
			t.Errorf("%s %s: refused %v, want %v", p.Kind, p.Path, p.Refused, want)
		}
	}
	if err := s.c.WatchPath(t.Context(), authority.Path{Writer: "old", Kind: authority.PathScript, Path: "/usr/local/bin/rebuild"}); err != nil {
		t.Fatal(err)
	}
	if _, err := canary.Turn(t.Context()); err == nil {
		t.Error("a script that nobody can try is passed over")
	}
}
