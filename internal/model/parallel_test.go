package model_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/model"
)

// grid is a walk on a torus with jumps: wide levels, many parallel edges, states
// that are found from several sides in the same level.
func grid(side int) model.Model[[2]int, int] {
	return model.Model[[2]int, int]{
		Name: "grid",
		Next: func(s [2]int, yield func(int, [2]int)) {
			if (s[0]*7+s[1]*3)%11 == 5 {
				return
			}
			for i, to := range [...][2]int{{s[0] + 1, s[1]}, {s[0], s[1] + 1}, {s[0] + 3, s[1] + 5}, {s[1], s[0]}, {s[0], s[1] + 1}} {
				yield(i, [2]int{to[0] % side, to[1] % side})
			}
		},
		Label: func(_ [2]int, a int, _ [2]int) string { return string(rune('a' + a)) },
		Properties: []model.Property[[2]int]{
			{Name: "not the corner", Kind: model.Never, At: func(s [2]int) bool { return s[0] > side-9 && s[1] > side-9 }},
			{Name: "back home", Kind: model.Recoverable, At: func(s [2]int) bool { return s == [2]int{} }},
		},
	}
}

// trail is everything that numbering decides.
func trail(g *model.Graph[[2]int, int]) (states [][2]int, edges []model.Edge[int], verdicts []model.Verdict) {
	for id := range g.States() {
		states = append(states, g.State(id))
	}
	return states, slices.Collect(g.Edges()), g.Verdicts()
}

// What is found does not depend on how many look for it.
func TestParallelSearchFindsTheSame(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1, 65, 5000} {
		alone, err := model.Search(t.Context(), grid(140), model.Options{MaxStates: limit, Parallel: 1})
		if (err != nil) != (limit > 0) {
			t.Fatal(err)
		}
		states, edges, verdicts := trail(alone)
		for _, hands := range []int{2, 5} {
			many, again := model.Search(t.Context(), grid(140), model.Options{MaxStates: limit, Parallel: hands})
			if (again == nil) != (err == nil) || (err != nil && again.Error() != err.Error()) {
				t.Fatalf("alone: %v; with %d: %v", err, hands, again)
			}
			s, e, v := trail(many)
			if !slices.Equal(states, s) || !slices.Equal(edges, e) {
				t.Errorf("limit %d, %d hands: another numbering", limit, hands)
			}
			if d := cmp.Diff(verdicts, v); d != "" {
				t.Errorf("limit %d, %d hands: %s", limit, hands, d)
			}
		}
	}
}

func TestParallelSearchCanBeCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	g, err := model.Search(ctx, grid(300), model.Options{Parallel: 3, Progress: func(states, _, _ int) {
		if states > 1000 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || g.Complete() {
		t.Errorf("complete %v, %v", g.Complete(), err)
	}
}
