package authority_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
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
	_, err = s.c.Plan(t.Context(), next)
	wantState(t, "a plan in spite of a hold on all", err, "RF423")
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

// An address of a retired writer is tried: gone, or nobody there, is refused, and any
// success is a way that is open. Of somebody who takes the call and says nothing, as of
// a script that nobody can try, nothing is known.
func TestARetiredRouteIsTried(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	answers := map[string]int{"/gone": http.StatusGone, "/open": http.StatusOK, "/moved": http.StatusFound}
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answers[r.URL.Path] == 0 {
			panic(http.ErrAbortHandler) // ends the connection
		}
		w.WriteHeader(answers[r.URL.Path])
	}))
	t.Cleanup(old.Close)
	left := httptest.NewServer(http.NotFoundHandler())
	left.Close()
	want := map[string]string{ // refused, open, or unknown
		old.URL + "/gone": "refused", old.URL + "/open": "open", old.URL + "/moved": "open", left.URL + "/left": "refused",
	}
	watch := func(kind, path string) {
		t.Helper()
		if err := s.c.WatchPath(t.Context(), authority.Path{Writer: "old", Kind: kind, Path: path}); err != nil {
			t.Fatal(err)
		}
	}
	s.everything(t)
	for path := range want {
		watch(authority.PathRoute, path)
	}
	if _, err := s.c.RetireWriter(t.Context(), "old", s.Pool); err != nil {
		t.Fatal(err)
	}
	canary := authority.Canary{DB: s.Pool, Log: slog.New(slog.DiscardHandler)}
	if open, err := canary.Turn(t.Context()); err != nil || len(open) != 2 {
		t.Errorf("%+v, %v", open, err)
	}
	for path, kind := range map[string]string{old.URL + "/mute": authority.PathRoute, "/usr/local/bin/rebuild": authority.PathScript} {
		watch(kind, path)
		want[path] = "unknown"
		if open, err := canary.Turn(t.Context()); err == nil || !strings.Contains(err.Error(), path) || len(open) != 2 {
			t.Errorf("%s is passed over: %+v, %v", path, open, err)
		}
	}
	s.wantPaths(t, want)
}

// wantPaths compares what the last tries found; the roles' are refused.
func (s *stage) wantPaths(t *testing.T, want map[string]string) {
	t.Helper()
	paths, err := authority.Paths(t.Context(), s.Pool)
	if err != nil || len(paths) != len(want)+2 {
		t.Fatalf("%+v, %v", paths, err)
	}
	for _, p := range paths {
		got := "unknown"
		if p.Refused != nil {
			got = map[bool]string{true: "refused", false: "open"}[*p.Refused]
		}
		if should := want[p.Path]; got != should && (p.Kind != authority.PathRole || got != "refused") {
			t.Errorf("%s %s is %s, want %s", p.Kind, p.Path, got, should)
		}
	}
}
