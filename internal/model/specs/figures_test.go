package specs_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

// find makes a variant that must exist.
func find(t *testing.T, name string, o specs.Options) specs.Checked {
	t.Helper()
	c, err := specs.Find(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func check(t *testing.T, c specs.Checked) specs.Report {
	t.Helper()
	r, err := c.Check(t.Context(), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// verdicts writes a report as the study's tables do: pass, or fail and the length
// of the shortest trace. Vacuity is not in the tables: it must hold everywhere.
func verdicts(t *testing.T, r specs.Report) string {
	t.Helper()
	var words []string
	for _, v := range r.Properties {
		switch {
		case v.Kind == model.Reachable && v.OK:
		case v.Kind == model.Reachable:
			t.Errorf("%s: %s: never reached: the model cannot do anything", r.Title, v.Name)
		case v.OK:
			words = append(words, "pass")
		default:
			words = append(words, fmt.Sprintf("fail %d", len(v.Trace)))
		}
	}
	return strings.Join(words, " ")
}

// fixes are the switches of the router that are on, written "idem+lease".
func fixes(words string) specs.Options {
	return specs.Options{With: strings.Split(words, "+"), Faults: specs.Default}
}

func TestRouterFigures(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		fixes               string
		states, transitions int
		verdicts            string
	}{
		{specs.None, 141, 350, "fail 5 pass fail 2"},
		{"fence", 141, 350, "fail 5 pass fail 2"},
		{"idem", 101, 262, "pass pass fail 2"},
		{"idem+fence", 101, 262, "pass pass fail 2"},
		{"lease", 485, 1222, "fail 5 fail 7 pass"},
		{"lease+fence", 405, 1034, "fail 5 pass pass"},
		{"idem+lease", 353, 938, "pass fail 7 pass"},
		{"idem+lease+fence", 301, 806, "pass pass pass"},
	} {
		r := check(t, find(t, "router", fixes(row.fixes)))
		if got := verdicts(t, r); r.States != row.states || r.Transitions != row.transitions || got != row.verdicts {
			t.Errorf("%s: %d states, %d transitions, %s; want %d, %d, %s", r.Title, r.States, r.Transitions, got, row.states, row.transitions, row.verdicts)
		}
	}
}

func TestFixedRouterFigures(t *testing.T) {
	t.Parallel()
	for _, row := range [][4]int{
		{2, 1, 89, 214}, {2, 2, 301, 806}, {2, 3, 747, 2244}, {3, 2, 1049, 3867}, {3, 3, 3369, 13679}, {4, 2, 3377, 15748},
	} {
		r := check(t, find(t, "router", specs.Options{Workers: row[0], Faults: row[1]}))
		if got := [...]int{row[0], row[1], r.States, r.Transitions}; got != row || verdicts(t, r) != "pass pass pass" {
			t.Errorf("%s: %v, want %v; %s", r.Title, got, row, verdicts(t, r))
		}
	}
}

func TestRouterWithFewerFaults(t *testing.T) {
	t.Parallel()
	none := check(t, find(t, "router", specs.Options{With: []string{specs.None}, Faults: 0}))
	if none.States != 13 || verdicts(t, none) != "pass pass pass" {
		t.Errorf("no faults: %d states, %s; want 13, all pass", none.States, verdicts(t, none))
	}
	one := check(t, find(t, "router", specs.Options{Without: []string{"fence"}, Faults: 1}))
	if verdicts(t, one) != "pass pass pass" {
		t.Errorf("one fault does not show the zombie: %s", verdicts(t, one))
	}
}

func TestJobFigures(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		version  string
		states   int
		verdicts string
	}{
		{"v0", 17, "pass pass fail 2"},
		{"v1", 149, "fail 5 fail 5 pass"},
		{"v2", 113, "pass pass pass"},
	} {
		r := check(t, find(t, "job", specs.Options{Version: row.version, Faults: specs.Default}))
		if got := verdicts(t, r); r.States != row.states || got != row.verdicts {
			t.Errorf("%s: %d states, %s; want %d, %s", r.Title, r.States, got, row.states, row.verdicts)
		}
		// Not published: that a rejected worker has no engine error of its own.
		if row.version == "v2" && r.Transitions != 282 {
			t.Errorf("%s: %d transitions, want 282", r.Title, r.Transitions)
		}
	}
}

func TestBatchFigures(t *testing.T) {
	t.Parallel()
	first := check(t, find(t, "batch", specs.Options{Gate: "first"}))
	if first.States != 29 || first.Transitions != 28 || verdicts(t, first) != "fail 3" || first.Properties[0].BadStates != 4 {
		t.Errorf("%d states, %d transitions, %s, %d misrouting batches; want 29, 28, fail 3, 4",
			first.States, first.Transitions, verdicts(t, first), first.Properties[0].BadStates)
	}
	if each := check(t, find(t, "batch", specs.Options{})); each.States != 29 || verdicts(t, each) != "pass" {
		t.Errorf("by record: %d states, %s; want 29, pass", each.States, verdicts(t, each))
	}
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	plain := find(t, "router", fixes(specs.None))
	for steps, want := range map[int]int64{0: 1, 1: 3, 8: 5629, 12: 154_599, 16: 2_977_545} {
		got, err := plain.Schedules(t.Context(), model.Options{}, steps)
		if err != nil || got.Int64() != want {
			t.Errorf("schedules of up to %d steps: %v, %v; want %d", steps, got, err, want)
		}
	}
}

func TestWalks(t *testing.T) {
	t.Parallel()
	v1 := specs.Options{Version: "v1", Faults: specs.Default}
	for _, row := range []struct {
		model    string
		options  specs.Options
		property string
		hits     int
		median   float64
		exact    float64
		exactMed int
	}{
		{"router", fixes(specs.None), "recovers to ROUTED", 7230, 3, 0.72222, 3},
		{"router", fixes(specs.None), "at most one L2", 1672, 10, 0.16559, 10},
		{"router", fixes("idem+lease"), "ROUTED is final", 406, 8, 0.03923, 8},
		{"job", v1, "at most one done write", 726, 9, 0.07070, 10},
		{"job", v1, "done is final", 48, 5, 0.00521, 5},
	} {
		w, err := find(t, row.model, row.options).Walk(t.Context(), model.Options{}, row.property, model.WalkOptions{Walks: 10_000, Steps: 20, Seed: 42})
		if err != nil {
			t.Fatal(err)
		}
		if w.Hits != row.hits || w.Median != row.median {
			t.Errorf("%s %s: %d hits, median %v; want %d, %v", row.model, row.property, w.Hits, w.Median, row.hits, row.median)
		}
		if math.Abs(w.Exact-row.exact) > 0.000005 || w.ExactMedian != row.exactMed {
			t.Errorf("%s %s: probability %.5f, median %d; want %.5f, %d", row.model, row.property, w.Exact, w.ExactMedian, row.exact, row.exactMed)
		}
		if row.exactMed == 10 && row.model == "job" && math.Abs(w.ByStep[9]/w.Exact-0.496) > 0.0005 {
			t.Errorf("%.4f of the hits come by step 9, want 0.496", w.ByStep[9]/w.Exact)
		}
	}
}

func TestSimulatedBatches(t *testing.T) {
	t.Parallel()
	cells, err := specs.Simulate([]int{1, 2, 10}, []float64{0.05, 0.25, 0.5}, 200_000, 7)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range cells {
		got = append(got, fmt.Sprintf("b=%d q=%.2f expected %.4g measured %.4f", c.Size, c.Flagless, c.Expected, c.Measured))
	}
	want := map[int]string{ // the published cells
		0: "b=1 q=0.05 expected 0 measured 0.0000",
		1: "b=1 q=0.25 expected 0 measured 0.0000",
		2: "b=1 q=0.50 expected 0 measured 0.0000",
		4: "b=2 q=0.25 expected 0.125 measured 0.1257",
		6: "b=10 q=0.05 expected 0.045 measured 0.0438",
		8: "b=10 q=0.50 expected 0.45 measured 0.4442",
	}
	for i, line := range want {
		if d := cmp.Diff(line, got[i]); d != "" {
			t.Error(d)
		}
	}
	for _, bad := range []func() error{
		func() error { _, err := specs.Simulate([]int{0}, []float64{0.5}, 10, 7); return err },
		func() error { _, err := specs.Simulate([]int{11}, []float64{0.5}, 10, 7); return err },
		func() error { _, err := specs.Simulate([]int{1}, []float64{1.5}, 10, 7); return err },
	} {
		if bad() == nil {
			t.Error("nonsense was simulated")
		}
	}
}
