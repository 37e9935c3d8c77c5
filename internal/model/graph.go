package model

import (
	"iter"
	"slices"
)

// Graph is what a search found. States have numbers from 0, the initial state, in
// the order of discovery. A Graph does not change and may be read by many.
type Graph[S, A comparable] struct {
	model Model[S, A]
	known *set[S]

	expanded    int // states whose steps were all taken; the others form the edge of an unfinished search
	transitions int
	depth       int

	edges edges // filled only if the search was asked to keep them
}

// edges are the transitions without their actions, which Next tells again: out of
// state i lead targets[ends[i-1]:ends[i]], in the order of Next.
type edges struct {
	targets []uint32
	ends    []int
}

// out returns the targets of a state, nil where none are kept.
func (e edges) out(id int) []uint32 {
	if id >= len(e.ends) {
		return nil
	}
	first := 0
	if id > 0 {
		first = e.ends[id-1]
	}
	return e.targets[first:e.ends[id]]
}

// Edge is one transition, from and to by number. Index is its place among the
// steps out of From: together they name the transition.
type Edge[A comparable] struct {
	From   int
	Index  int
	Action A
	To     int
}

// Model returns the model that was searched.
func (g *Graph[S, A]) Model() Model[S, A] { return g.model }

// States returns how many distinct states were found, the initial one included.
func (g *Graph[S, A]) States() int { return g.known.count }

// Transitions returns how many steps were offered in all expanded states: two
// steps to the same state count twice.
func (g *Graph[S, A]) Transitions() int { return g.transitions }

// Depth returns the length of the longest of the shortest paths to the expanded
// states.
func (g *Graph[S, A]) Depth() int { return g.depth }

// Complete reports whether every reachable state was found and expanded.
func (g *Graph[S, A]) Complete() bool { return g.expanded == g.known.count }

// State returns a state by its number, which must be below States.
func (g *Graph[S, A]) State(id int) S { return *g.known.at(uint32(id)) }

// ID returns a state's number, false for a state that was not found.
func (g *Graph[S, A]) ID(s S) (int, bool) {
	id, _, known := g.known.find(&s, g.known.hash.half(&s))
	return int(id), known
}

// From yields the steps out of one state in the model's order; none for a state
// that an unfinished search did not expand.
func (g *Graph[S, A]) From(id int) iter.Seq[Edge[A]] {
	return func(yield func(Edge[A]) bool) {
		if id >= g.expanded {
			return
		}
		next, more := 0, true
		targets := g.edges.out(id)
		g.model.Next(g.State(id), func(a A, to S) {
			if more {
				more = yield(Edge[A]{From: id, Index: next, Action: a, To: g.target(targets, next, to)})
				next++
			}
		})
	}
}

// Edges yields every transition, parallel ones included, state by state.
func (g *Graph[S, A]) Edges() iter.Seq[Edge[A]] {
	return func(yield func(Edge[A]) bool) {
		for id := range g.expanded {
			for e := range g.From(id) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// forward returns the transitions, looked up where the search did not keep them.
func (g *Graph[S, A]) forward() edges {
	if g.edges.ends != nil {
		return g.edges
	}
	f := edges{targets: make([]uint32, 0, g.transitions), ends: make([]int, g.expanded)}
	for from := range g.expanded {
		for e := range g.From(from) {
			f.targets = append(f.targets, uint32(e.To))
		}
		f.ends[from] = len(f.targets)
	}
	return f
}

// target is the number of the n-th step's end.
func (g *Graph[S, A]) target(kept []uint32, n int, to S) int {
	if kept != nil {
		return int(kept[n])
	}
	id, _ := g.ID(to) // an expanded state's targets are all known
	return id
}

// Path returns the edges of a shortest path from the initial state: the one by
// which the state was first discovered.
func (g *Graph[S, A]) Path(id int) []Edge[A] {
	var path []Edge[A]
	for id != 0 {
		from := int(g.known.node(uint32(id)).parent)
		path = append(path, g.discovery(from, id))
		id = from
	}
	slices.Reverse(path)
	return path
}

// discovery returns the first step of from that leads to the state: the one that
// discovered it. It asks Next, as the parent may be a state that the limit left
// half expanded.
func (g *Graph[S, A]) discovery(from, to int) Edge[A] {
	edge, found, want := Edge[A]{From: from, To: to}, false, g.State(to)
	g.model.Next(g.State(from), func(a A, s S) {
		switch {
		case found:
		case s == want:
			edge.Action, found = a, true
		default:
			edge.Index++
		}
	})
	return edge
}

// Trace returns the labels of Path.
func (g *Graph[S, A]) Trace(id int) []string { return g.Labels(g.Path(id)) }

// Labels says in words what each step of a path does.
func (g *Graph[S, A]) Labels(path []Edge[A]) []string {
	labels := make([]string, len(path))
	for i, e := range path {
		labels[i] = g.model.Label(g.State(e.From), e.Action, g.State(e.To))
	}
	return labels
}

// Cover yields paths from the initial state that together take every transition,
// parallel ones included. Each goes a shortest way to a transition not yet taken
// and on through others not yet taken, until there is none where it stands or it
// has most steps (0: no bound; the way to the first is never cut).
func (g *Graph[S, A]) Cover(most int) iter.Seq[[]Edge[A]] {
	return func(yield func([]Edge[A]) bool) {
		taken := make([]int, g.expanded) // how many of each state's steps are covered, in their order
		for id := range g.expanded {
			for {
				rest := g.extend(id, taken, most)
				if len(rest) == 0 {
					break
				}
				if !yield(append(g.Path(id), rest...)) {
					return
				}
			}
		}
	}
}

// extend follows steps not yet taken from a state on, and marks them as taken. The
// way to the state is as long as its depth, which most leaves out of account only
// for the first step.
func (g *Graph[S, A]) extend(id int, taken []int, most int) []Edge[A] {
	var rest []Edge[A]
	length := 0
	if most > 0 {
		length = len(g.Path(id))
	}
	for id < g.expanded && (most == 0 || len(rest) == 0 || length+len(rest) < most) {
		step, ok := g.nth(id, taken[id])
		if !ok {
			break
		}
		taken[id]++
		rest = append(rest, step)
		id = step.To
	}
	return rest
}

// nth returns the n-th step out of a state, false when it has fewer.
func (g *Graph[S, A]) nth(id, n int) (Edge[A], bool) {
	for e := range g.From(id) {
		if n == 0 {
			return e, true
		}
		n--
	}
	return Edge[A]{}, false
}
