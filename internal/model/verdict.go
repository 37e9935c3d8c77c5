package model

import "fmt"

// Verdict is the judgement of one property. At most one of OK and Open is true;
// with neither the property is broken.
type Verdict struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	OK   bool   `json:"ok"`

	// Open says that the search ended before this could be known.
	Open bool `json:"open,omitempty"`

	// BadStates counts violating states: bad ones of a Never, stuck ones of a
	// Recoverable, 1 for a Reachable that was never reached.
	BadStates int `json:"bad_states"`

	// Trace is a shortest way to the first violating state in the order of
	// discovery, in words. For a Reachable that holds it leads to the first wanted
	// state. Empty where there is none, and where it is the initial state.
	Trace []string `json:"trace"`

	// Path is the same way as places among the steps offered, from 0.
	Path []int `json:"path"`

	// State is the number of the state that Trace leads to, -1 for none.
	State int `json:"-"`
}

// Verdicts judges every property of the model, in the model's order.
func (g *Graph[S, A]) Verdicts() []Verdict {
	verdicts := make([]Verdict, len(g.model.Properties))
	for i, t := range g.tally(g.model.Properties) {
		verdicts[i] = g.judge(g.model.Properties[i], t)
	}
	return verdicts
}

// Judge judges one property, by name, of the model.
func (g *Graph[S, A]) Judge(name string) (Verdict, error) {
	p, err := g.property(name)
	if err != nil {
		return Verdict{}, err
	}
	return g.judge(p, g.tally([]Property[S]{p})[0]), nil
}

// property finds a property by name.
func (g *Graph[S, A]) property(name string) (Property[S], error) {
	var names []string
	for _, p := range g.model.Properties {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Property[S]{}, fmt.Errorf("model %s: no property %q: there are %q", g.model.Name, name, names)
}

// judge says what the states that count for a property come to.
func (g *Graph[S, A]) judge(p Property[S], t tally) Verdict {
	v := Verdict{Name: p.Name, Kind: p.Kind, Trace: []string{}, Path: []int{}, State: -1}
	if p.Kind == Recoverable && !g.Complete() {
		v.Open = true // the way back may lie in the part that was not explored
		return v
	}
	if t.count > 0 {
		path := g.Path(t.first)
		v.State, v.Trace = t.first, g.Labels(path)
		for _, e := range path {
			v.Path = append(v.Path, e.Index)
		}
	}
	switch found := t.count > 0; {
	case p.Kind == Reachable:
		v.OK, v.Open = found, !found && !g.Complete()
		if !found && g.Complete() {
			v.BadStates = 1
		}
	default:
		v.BadStates = t.count
		v.OK, v.Open = !found && g.Complete(), !found && !g.Complete()
	}
	return v
}

// tally is how many states count for a property, and which is the first of them.
type tally struct{ count, first int }

func (t *tally) add(id int) {
	if t.count == 0 {
		t.first = id
	}
	t.count++
}

// tally looks at every state, and shows it to all properties while it is at hand: to
// fetch it from memory costs more than to judge it.
func (g *Graph[S, A]) tally(properties []Property[S]) []tally {
	found := make([]tally, len(properties))
	for first := 0; first < g.States(); first += 1 << pieceBits {
		states := g.known.run(uint32(first), uint32(g.States()))
		for i, p := range properties {
			if p.Kind == Recoverable {
				continue
			}
			for j := range states {
				if p.At(states[j].state) {
					found[i].add(first + j)
				}
			}
		}
	}
	for i, p := range properties {
		if p.Kind == Recoverable && g.Complete() {
			for id, stuck := range g.Marked(p) {
				if stuck {
					found[i].add(id)
				}
			}
		}
	}
	return found
}

// Marked tells of every state whether it counts for the property: bad for Never,
// wanted for Reachable, stuck for Recoverable.
func (g *Graph[S, A]) Marked(p Property[S]) []bool {
	picked := make([]bool, g.States())
	for id := range picked {
		picked[id] = p.At(*g.known.at(uint32(id)))
	}
	if p.Kind != Recoverable {
		return picked
	}
	g.backwards(picked)
	for id := range picked {
		picked[id] = !picked[id]
	}
	return picked
}

// backwards marks, in one pass against the transitions, every state from which a
// marked one can be reached.
func (g *Graph[S, A]) backwards(marked []bool) {
	sources, ends := g.reversed()
	var queue []uint32
	for id, m := range marked {
		if m {
			queue = append(queue, uint32(id))
		}
	}
	for len(queue) > 0 {
		to := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		first := 0
		if to > 0 {
			first = ends[to-1]
		}
		for _, from := range sources[first:ends[to]] {
			if !marked[from] {
				marked[from] = true
				queue = append(queue, from)
			}
		}
	}
}

// reversed returns the transitions by their target: into state i lead
// sources[ends[i-1]:ends[i]].
func (g *Graph[S, A]) reversed() (sources []uint32, ends []int) {
	f := g.forward()
	next := make([]int, g.States()+1)
	for _, to := range f.targets {
		next[to+1]++
	}
	for id := range g.States() {
		next[id+1] += next[id]
	}
	sources = make([]uint32, len(f.targets))
	for from := range g.expanded {
		for _, to := range f.out(from) {
			sources[next[to]] = uint32(from)
			next[to]++ // the start of a state moves to its end, which is the next one's start
		}
	}
	return sources, next[:g.States()]
}
