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
