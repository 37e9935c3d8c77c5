package specs_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

func TestOptionsThatDoNotExistAreNamed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		model   string
		options specs.Options
		want    string
	}{
		{"rooter", specs.Options{}, `no model "rooter": there are router, job, batch, ledger, relay, authority`},
		{"router", specs.Options{Without: []string{"leash"}}, `no switch "leash": there are idem, lease, fence`},
		{"router", specs.Options{With: []string{"none", "idem"}}, `no switch "none"`},
		{"router", specs.Options{With: []string{"idem"}, Without: []string{"lease"}}, "both with and without"},
		{"router", specs.Options{Workers: 9}, "9 workers: give 1 to 8"},
		{"router", specs.Options{Workers: -1}, "-1 workers: give 1 to 8"},
		{"router", specs.Options{Faults: 101}, "101 faults: give 0 to 100"},
		{"router", specs.Options{Version: "v1"}, `router has no versions: leave "v1" out`},
		{"job", specs.Options{Version: "v3"}, `no version "v3": there are v0, v1, v2`},
		{"job", specs.Options{Without: []string{"fence"}}, `job has no switches, so none called "fence"`},
		{"batch", specs.Options{Workers: 2}, "batch has no workers"},
		{"batch", specs.Options{Gate: "last"}, `no gate "last": there are first, record`},
	} {
		if _, err := specs.Find(row.model, row.options); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s %+v: want an error with %q, got %v", row.model, row.options, row.want, err)
		}
	}
}

func TestEveryEntryHasDefaults(t *testing.T) {
	t.Parallel()
	for _, e := range specs.List() {
		c, err := specs.Find(e.Name, specs.Options{Faults: specs.Default})
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		if r := check(t, c); r.Broken() || !r.Complete || r.Model != e.Name {
			t.Errorf("%s: by default every defence is on and everything holds: %+v", e.Name, r)
		}
	}
}

func TestTitles(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		model   string
		options specs.Options
		want    string
	}{
		{"router", specs.Options{Faults: specs.Default}, "router, 2 workers, 2 faults, with idem+lease+fence"},
		{"router", specs.Options{Workers: 3, Without: []string{"lease"}}, "router, 3 workers, 0 faults, with idem+fence"},
		{"router", fixes(specs.None), "router, 2 workers, 2 faults, no defence"},
		{"job", specs.Options{Version: "v1", Faults: 1}, "job, 2 workers, 1 fault, v1"},
		{"batch", specs.Options{}, "batch, record"},
	} {
		if got := find(t, row.model, row.options).Title(); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}

func TestExplore(t *testing.T) {
	t.Parallel()
	c := find(t, "router", fixes("idem+lease"))
	scene, err := c.Explore([]int{0, 0})
	if err != nil {
		t.Fatal(err)
	}
	want := specs.Scene{
		Title: "router, 2 workers, 2 faults, with idem+lease",
		Trace: []string{"A claims (epoch 1)", "A dispatches"},
		State: []model.Field{
			{Name: "status", Value: "ROUTING"},
			{Name: "epoch", Value: "1"},
			{Name: "lease expired", Value: "false"},
			{Name: "L2", Value: "1"},
			{Name: "A", Value: "sent (epoch 1)"},
			{Name: "B", Value: "idle"},
			{Name: "faults left", Value: "2"},
		},
		Steps: []specs.Offer{
			{Label: "A marks ROUTED"},
			{Label: "A's mark fails", Fault: true},
			{Label: "A crashes", Fault: true},
			{Label: "B exits without a claim"},
			{Label: "A pauses, lease expires", Fault: true},
		},
		Violated: []string{}, Reached: []string{},
	}
	if d := cmp.Diff(want, scene); d != "" {
		t.Error(d)
	}
	for _, path := range [][]int{{9}, {0, -1}} {
		if _, err := c.Explore(path); err == nil || !strings.Contains(err.Error(), "numbered from 0") {
			t.Errorf("path %v: got %v", path, err)
		}
	}
}

func TestGraphFormats(t *testing.T) {
	t.Parallel()
	c := find(t, "batch", specs.Options{Gate: "first"})
	for _, format := range specs.Formats() {
		var b strings.Builder
		if err := c.Graph(t.Context(), model.Options{}, format, &b); err != nil {
			t.Fatal(err)
		}
		golden(t, "batch-first."+format+".txt", b.String())
	}
	if err := c.Graph(t.Context(), model.Options{}, "svg", &strings.Builder{}); err == nil || !strings.Contains(err.Error(), `"dot" "mermaid"`) {
		t.Errorf("got %v", err)
	}
}

func TestStoppedCheckReportsWhatItFound(t *testing.T) {
	t.Parallel()
	c := find(t, "router", fixes("idem+lease"))
	r, err := c.Check(t.Context(), model.Options{MaxStates: 300})
	if err == nil || r.Complete || r.States != 300 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, v := range r.Properties {
		if v.OK && v.Kind != model.Reachable {
			t.Errorf("%s is claimed to hold, and the search did not end", v.Name)
		}
	}
	if _, err := c.Schedules(t.Context(), model.Options{MaxStates: 3}, 3); err == nil {
		t.Error("schedules of a part")
	}
	if _, err := c.Walk(t.Context(), model.Options{}, "ROUTED is fine", model.WalkOptions{Walks: 1, Steps: 1}); err == nil || !strings.Contains(err.Error(), "ROUTED is final") {
		t.Errorf("an unknown property: %v", err)
	}
}
