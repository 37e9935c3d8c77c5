package specs

import (
	"testing"

	"briefrail/internal/model"
)

// The counters are bytes, and maxBudget is far below 255 because each step of an
// epoch, an assignment or a done write beyond the first costs a fault.
func TestCountersStayBelowTheBudget(t *testing.T) {
	t.Parallel()
	const invocations, faults = 3, 4
	for bits := range 8 {
		r := router{invocations: invocations, idem: bits&1 > 0, lease: bits&2 > 0, fence: bits&4 > 0}
		g, err := model.Search(t.Context(), r.model(faults), model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for id := range g.States() {
			if s := g.State(id); s.Epoch > faults+1 || s.L2 > faults+1 {
				t.Fatalf("%+v: %+v", r, s)
			}
		}
	}
	for _, j := range []job{{invocations: invocations}, {invocations: invocations, reclaim: true}, {invocations: invocations, reclaim: true, fence: true}} {
		g, err := model.Search(t.Context(), j.model(faults), model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for id := range g.States() {
			if s := g.State(id); s.Epoch > faults+1 || s.Done > faults+1 {
				t.Fatalf("%+v: %+v", j, s)
			}
		}
	}
}

// What is published of the complete batches: how many there are, and how many of them
// each gate sends astray.
func TestCompleteBatches(t *testing.T) {
	t.Parallel()
	for gate, astray := range map[batch]int{{first: true}: 4, {first: false}: 0} {
		g, err := model.Search(t.Context(), gate.model(), model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		open, complete, misrouted := 0, 0, 0
		for id := range g.States() {
			switch s := g.State(id); {
			case !s.Processed:
				open++
			case s.misrouted():
				misrouted++
				complete++
			default:
				complete++
			}
		}
		if open != 15 || complete != 14 || misrouted != astray {
			t.Errorf("%+v: %d open states, %d complete batches, %d of them misrouted; want 15, 14, %d", gate, open, complete, misrouted, astray)
		}
	}
}
