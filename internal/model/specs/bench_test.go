package specs

import (
	"fmt"
	"runtime"
	"testing"

	"briefrail/internal/model"
)

// Searching the fixed router, judged or not: states per second on -cpu cores, and
// bytes that a state costs while the graph is held.
func BenchmarkSearch(b *testing.B) {
	for _, size := range [][2]int{{4, 3}, {5, 4}, {6, 4}} {
		for _, judged := range []bool{false, true} {
			m := router{invocations: size[0], idem: true, lease: true, fence: true}.model(size[1])
			if !judged {
				m.Properties = nil
			}
			b.Run(fmt.Sprintf("workers=%d/faults=%d/judged=%v", size[0], size[1], judged), func(b *testing.B) { searched(b, m) })
		}
	}
}

// searched measures one model.
func searched(b *testing.B, m model.Model[routerState, routerAct]) {
	states, transitions := 0, 0
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var last *model.Graph[routerState, routerAct]
	for b.Loop() {
		last = nil // or its memory would be counted twice
		g, err := model.Search(b.Context(), m, model.Options{})
		if err != nil {
			b.Fatal(err)
		}
		g.Verdicts()
		last = g
		states += g.States()
		transitions += g.Transitions()
	}
	b.StopTimer()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(states)/b.Elapsed().Seconds(), "states/s")
	b.ReportMetric(float64(transitions)/b.Elapsed().Seconds(), "transitions/s")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(last.States()), "B/state")
	b.ReportMetric(float64(last.States()), "states")
}
