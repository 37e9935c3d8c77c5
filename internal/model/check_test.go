package model_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/model"
)

// hand is a model whose states are numbers and whose steps are written out; an
// action is the step's place in its list.
func hand(steps map[int][]int, properties ...model.Property[int]) model.Model[int, int] {
	return model.Model[int, int]{
		Name: "hand",
		Next: func(s int, yield func(int, int)) {
			for i, to := range steps[s] {
				yield(i, to)
			}
		},
		Label:      func(from, a, to int) string { return fmt.Sprintf("%d-%d->%d", from, a, to) },
		Fault:      func(a int) bool { return a == 1 },
		Properties: properties,
	}
}

// is picks one state.
func is(n int) func(int) bool { return func(s int) bool { return s == n } }

func search(t *testing.T, m model.Model[int, int], o model.Options) *model.Graph[int, int] {
	t.Helper()
	g, err := model.Search(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// diamond has two ways to 3, a pair of parallel steps, a way round and a dead end.
func diamond() map[int][]int {
	return map[int][]int{0: {1, 2}, 1: {3, 3}, 2: {3, 4}, 3: {0}}
}

func TestStatesAreNumberedAsTheyAreDiscovered(t *testing.T) {
	t.Parallel()
	g := search(t, hand(map[int][]int{0: {9, 7}, 9: {5}, 7: {5, 9, 1}}), model.Options{})
	var order []int
	for id := range g.States() {
		order = append(order, g.State(id))
	}
	if d := cmp.Diff([]int{0, 9, 7, 5, 1}, order); d != "" {
		t.Error(d)
	}
	if g.Transitions() != 6 || g.Depth() != 2 || !g.Complete() {
		t.Errorf("transitions %d, depth %d, complete %v", g.Transitions(), g.Depth(), g.Complete())
	}
	if d := cmp.Diff([]string{"0-0->9", "9-0->5"}, g.Trace(3)); d != "" {
		t.Error(d)
	}
	if id, ok := g.ID(1); id != 4 || !ok {
		t.Errorf("state 1 is number %d, %v", id, ok)
	}
	if _, ok := g.ID(8); ok {
		t.Error("state 8 cannot be reached")
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	g := search(t, hand(diamond(),
		model.Property[int]{Name: "no 3", Kind: model.Never, At: is(3)},
		model.Property[int]{Name: "no 9", Kind: model.Never, At: is(9)},
		model.Property[int]{Name: "some 4", Kind: model.Reachable, At: is(4)},
		model.Property[int]{Name: "some 9", Kind: model.Reachable, At: is(9)},
		model.Property[int]{Name: "back to 0", Kind: model.Recoverable, At: is(0)},
		model.Property[int]{Name: "on to 0 or 4", Kind: model.Recoverable, At: func(s int) bool { return s == 0 || s == 4 }},
		model.Property[int]{Name: "on to 9", Kind: model.Recoverable, At: is(9)},
	), model.Options{})
	want := []model.Verdict{
		{Name: "no 3", Kind: model.Never, BadStates: 1, Trace: []string{"0-0->1", "1-0->3"}, Path: []int{0, 0}, State: 3},
		{Name: "no 9", Kind: model.Never, OK: true, Trace: []string{}, Path: []int{}, State: -1},
		{Name: "some 4", Kind: model.Reachable, OK: true, Trace: []string{"0-1->2", "2-1->4"}, Path: []int{1, 1}, State: 4},
		{Name: "some 9", Kind: model.Reachable, BadStates: 1, Trace: []string{}, Path: []int{}, State: -1},
		{Name: "back to 0", Kind: model.Recoverable, BadStates: 1, Trace: []string{"0-1->2", "2-1->4"}, Path: []int{1, 1}, State: 4},
		{Name: "on to 0 or 4", Kind: model.Recoverable, OK: true, Trace: []string{}, Path: []int{}, State: -1},
		{Name: "on to 9", Kind: model.Recoverable, BadStates: 5, Trace: []string{}, Path: []int{}, State: 0},
	}
	if d := cmp.Diff(want, g.Verdicts()); d != "" {
		t.Error(d)
	}
	if _, err := g.Judge("some 8"); err == nil || !strings.Contains(err.Error(), `"some 9"`) {
		t.Errorf("an unknown property must name the known ones: %v", err)
	}
}

// line is 0, 1, 2, ... without end.
func line() model.Model[int, int] {
	m := hand(nil,
		model.Property[int]{Name: "no 5", Kind: model.Never, At: is(5)},
		model.Property[int]{Name: "no -1", Kind: model.Never, At: is(-1)},
		model.Property[int]{Name: "some 6", Kind: model.Reachable, At: is(6)},
		model.Property[int]{Name: "some -1", Kind: model.Reachable, At: is(-1)},
		model.Property[int]{Name: "back to 0", Kind: model.Recoverable, At: is(0)})
	m.Next = func(s int, yield func(int, int)) {
		yield(0, s)
		yield(1, s+1)
	}
	return m
}

func TestLimitIsAnErrorAndLeavesWhatWasFound(t *testing.T) {
	t.Parallel()
	g, err := model.Search(t.Context(), line(), model.Options{MaxStates: 7})
	var limit *model.LimitError
	if !errors.As(err, &limit) || limit.Limit != 7 || !strings.Contains(err.Error(), "stopped after 7 states, 12 transitions") || !strings.Contains(err.Error(), "raise") {
		t.Fatalf("got %v", err)
	}
	if g.Complete() || g.States() != 7 || g.Transitions() != 12 {
		t.Errorf("complete %v, %d states, %d transitions", g.Complete(), g.States(), g.Transitions())
	}
	brief := func(v model.Verdict) string {
		return fmt.Sprintf("%s ok=%v open=%v bad=%d steps=%d", v.Name, v.OK, v.Open, v.BadStates, len(v.Trace))
	}
	var got []string
	for _, v := range g.Verdicts() {
		got = append(got, brief(v))
	}
	want := []string{
		"no 5 ok=false open=false bad=1 steps=5",
		"no -1 ok=false open=true bad=0 steps=0",
		"some 6 ok=true open=false bad=0 steps=6",
		"some -1 ok=false open=true bad=0 steps=0",
		"back to 0 ok=false open=true bad=0 steps=0",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := g.Schedules(3); err == nil {
		t.Error("schedules of a part of a graph would be too few")
	}
}

func TestCancelledSearchSaysHowFarItCame(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	g, err := model.Search(ctx, line(), model.Options{Progress: func(states, _, _ int) {
		if states > 2000 {
			cancel(enough)
		}
	}})
	if !errors.Is(err, enough) || !strings.Contains(err.Error(), fmt.Sprintf("stopped after %d states, %d transitions", g.States(), g.Transitions())) {
		t.Fatalf("got %v", err)
	}
	if v, _ := g.Judge("no 5"); v.OK || v.Open || v.BadStates != 1 {
		t.Errorf("what was found is true: %+v", v)
	}
}

func TestBadModelsAreRefused(t *testing.T) {
	t.Parallel()
	broken := map[string]func(*model.Model[int, int]){
		"without a name": func(m *model.Model[int, int]) { m.Name = "" },
		"Next and Label": func(m *model.Model[int, int]) { m.Next = nil },
		"property 0":     func(m *model.Model[int, int]) { m.Properties = []model.Property[int]{{Name: "x", Kind: model.Never}} },
	}
	for want, spoil := range broken {
		m := hand(diamond())
		spoil(&m)
		if _, err := model.Search(t.Context(), m, model.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error about %q, got %v", want, err)
		}
	}
	if _, err := model.Search(t.Context(), hand(diamond()), model.Options{MaxStates: -1}); err == nil {
		t.Error("a limit below zero was taken")
	}
}

func TestEdgesAndCover(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		g := search(t, hand(diamond()), model.Options{Edges: keep})
		var all []model.Edge[int]
		for e := range g.Edges() {
			all = append(all, e)
		}
		want := []model.Edge[int]{
			{From: 0, Action: 0, To: 1},
			{From: 0, Index: 1, Action: 1, To: 2},
			{From: 1, Action: 0, To: 3},
			{From: 1, Index: 1, Action: 1, To: 3},
			{From: 2, Action: 0, To: 3},
			{From: 2, Index: 1, Action: 1, To: 4},
			{From: 3, Action: 0, To: 0},
		}
		if d := cmp.Diff(want, all); d != "" {
			t.Error(d)
		}
		for _, most := range []int{0, 1, 3} {
			covered(t, g, all, most)
		}
	}
}

// covered checks that the paths hang together, start at the start and miss nothing.
func covered(t *testing.T, g *model.Graph[int, int], all []model.Edge[int], most int) {
	t.Helper()
	seen := map[model.Edge[int]]bool{}
	for path := range g.Cover(most) {
		at := 0
		for _, e := range path {
			if e.From != at {
				t.Errorf("path %v jumps", path)
			}
			at = e.To
			seen[e] = true
		}
		if shortest := len(g.Path(path[len(path)-1].From)) + 1; most > 0 && len(path) > max(most, shortest) {
			t.Errorf("path %v is longer than %d", path, most)
		}
	}
	if missing := slices.DeleteFunc(slices.Clone(all), func(e model.Edge[int]) bool { return seen[e] }); len(missing) > 0 {
		t.Errorf("most %d: not covered: %v", most, missing)
	}
}
