package specs_test

import (
	"strings"
	"testing"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

// makeTwin is the twin with some fixes, and maybe one change.
func makeTwin(fixes, change string, invocations, faults int) twin {
	on := func(fix string) bool { return fixes == "all" || strings.Contains(fixes, fix) }
	return twin{invocations: invocations, faults: faults, idem: on("idem"), lease: on("lease"), fence: on("fence"), change: change}
}

// Unchanged, the twin is the router, state for state and step for step.
func TestTwinIsTheRouter(t *testing.T) {
	t.Parallel()
	for _, f := range []string{specs.None, "fence", "idem", "idem+fence", "lease", "lease+fence", "idem+lease", "idem+lease+fence"} {
		for _, size := range [][2]int{{1, 3}, {2, 0}, {2, 2}, {3, 2}, {2, 4}} {
			o := fixes(f)
			o.Workers, o.Faults = size[0], size[1]
			r := check(t, find(t, "router", o))
			g := makeTwin(f, "", size[0], size[1]).search(t)
			if g.States() != r.States || g.Transitions() != r.Transitions || g.Depth() != r.Depth {
				t.Errorf("%s: %d states, %d transitions, depth %d; the twin has %d, %d, %d",
					r.Title, r.States, r.Transitions, r.Depth, g.States(), g.Transitions(), g.Depth())
			}
			if v := g.Verdicts()[0]; v.BadStates != r.Properties[1].BadStates || len(v.Trace) != len(r.Properties[1].Trace) {
				t.Errorf("%s: %d bad states, the twin has %d", r.Title, r.Properties[1].BadStates, v.BadStates)
			}
		}
	}
}

// One choice changed, and nothing else, gives another figure. 0 stands for a figure
// that was not measured.
func TestEachChoiceShowsInTheFigures(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		change, fixes       string
		invocations, faults int
		states, transitions int
	}{
		{"finished is idle", "none", 2, 2, 136, 0},
		{"finished is idle", "all", 2, 2, 289, 0},
		{"a failed claim is no step", "none", 2, 2, 126, 0},
		{"a failed claim is no step", "none", 2, 0, 8, 0},
		{"a failed claim stays idle", "none", 2, 2, 126, 0},
		{"a failed claim stays idle", "none", 2, 0, 8, 0},
		{"no redelivery once ROUTED", "none", 2, 2, 135, 0},
		{"no redelivery once ROUTED", "none", 2, 0, 12, 0},
		{"crash goes to idle", "none", 2, 2, 141, 0},
		{"crash goes to idle", "all", 2, 2, 301, 0},
		{"crash goes to idle", "all", 2, 3, 745, 0},
		{"crashed is not done", "none", 2, 2, 169, 0},
		{"idle may crash", "none", 2, 2, 212, 0},
		{"a failed mark stays sent", "none", 2, 2, 173, 0},
		{"a failed mark ends", "none", 2, 2, 141, 350},
		{"a failed mark does not happen", "none", 2, 2, 141, 338},
		{"no crash at failed", "none", 2, 2, 133, 0},
		{"a reset may fail", "none", 2, 2, 141, 358},
		{"L2 capped", "none", 2, 2, 133, 0},
		{"L2 capped", "lease", 2, 2, 457, 0},
		{"epochs need a lease", "none", 2, 2, 133, 0},
		{"epochs need a lease", "idem", 2, 2, 93, 0},
		{"claim is kept", "none", 2, 0, 17, 0},
		{"final is having left", "lease", 2, 2, 493, 0},
		{"final is having left", "idem+lease", 2, 2, 357, 0},
		{"a dead holder needs no expiry", "lease", 2, 2, 449, 0},
		{"a dead holder needs no expiry", "all", 2, 2, 273, 0},
		{"a crash expires the lease", "lease", 2, 2, 441, 0},
		{"a crash expires the lease", "all", 2, 2, 265, 0},
		{"free expiry waits for all", "lease", 2, 2, 469, 0},
		{"free expiry waits for all", "all", 2, 2, 289, 0},
		{"claims alone clear expired", "lease", 2, 2, 493, 0},
		{"claims alone clear expired", "all", 2, 2, 305, 0},
		{"anybody may pause", "all", 2, 2, 301, 814},
		{"no pause at failed", "all", 2, 2, 301, 798},
		{"a rejected mark may fail", "all", 2, 2, 301, 814},
		{"reset only while ROUTING", "lease", 2, 2, 461, 0},
		{"reset only while ROUTING", "idem+lease", 2, 2, 341, 0},
		{"mark only while ROUTING", "lease", 2, 2, 485, 1214},
		{"mark only while ROUTING", "idem+lease", 2, 2, 353, 0},
	} {
		g := makeTwin(row.fixes, row.change, row.invocations, row.faults).search(t)
		if g.States() != row.states || (row.transitions > 0 && g.Transitions() != row.transitions) {
			t.Errorf("%s, %s, %d faults: %d states, %d transitions; want %d, %d",
				row.change, row.fixes, row.faults, g.States(), g.Transitions(), row.states, row.transitions)
		}
	}
}

// Two changes leave every count as it is; the schedules tell the one, the walks the
// other.
func TestChoicesThatOnlySchedulesAndWalksShow(t *testing.T) {
	t.Parallel()
	for change, same := range map[string]bool{"": true, "a failed mark ends": false} {
		n, err := makeTwin("none", change, 2, 2).search(t).Schedules(8)
		if err != nil || (n.Int64() == 5629) != same {
			t.Errorf("%q: %v schedules, %v", change, n, err)
		}
	}
	for change, hits := range map[string]int{"": 406, "mark only while ROUTING": 397} {
		w, err := makeTwin("idem+lease", change, 2, 2).search(t).Walk("ROUTED is final", model.WalkOptions{Walks: 10_000, Steps: 20, Seed: 42})
		if err != nil || w.Hits != hits {
			t.Errorf("%q: %d hits, %v; want %d", change, w.Hits, err, hits)
		}
	}
}
