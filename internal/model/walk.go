package model

import (
	"errors"
	"fmt"
	"math/big"
)

// Schedules returns how many sequences of up to steps actions start in the initial
// state, the empty one counted. They are counted along the transitions, not listed.
// The graph must be complete.
func (g *Graph[S, A]) Schedules(steps int) (*big.Int, error) {
	if err := g.whole(steps); err != nil {
		return nil, err
	}
	f := g.forward()
	now, next := make([]big.Int, g.States()), make([]big.Int, g.States())
	now[0].SetInt64(1)
	total := big.NewInt(1)
	for range steps {
		for from := range now {
			if now[from].Sign() == 0 {
				continue
			}
			for _, to := range f.out(from) {
				next[to].Add(&next[to], &now[from])
				total.Add(total, &now[from])
			}
			now[from].SetInt64(0)
		}
		now, next = next, now
	}
	return total, nil
}

// whole refuses what would need the part of a graph that is missing.
func (g *Graph[S, A]) whole(steps int) error {
	switch {
	case !g.Complete():
		return fmt.Errorf("model %s: the search stopped after %d states, and this needs all of them", g.model.Name, g.States())
	case steps < 0:
		return errors.New("model: steps below zero")
	}
	return nil
}

// WalkOptions are the shape of a sample of random walks.
type WalkOptions struct {
	Walks int    // how many
	Steps int    // of each
	Seed  uint32 // of the one generator behind all of them
}

// Walks is the outcome of a sample: how many walks hit a state that counts for the
// property, and when for the first time.
type Walks struct {
	Walks int `json:"walks"`
	Steps int `json:"steps"`
	Hits  int `json:"hits"`

	// Median of the step of the first hit, over the walks that hit; 0 for no hit.
	Median float64 `json:"median"`
}

// Walk takes random walks from the initial state, each step chosen uniformly among
// those offered, and counts those that meet a state that Marked picks for the named
// property (the initial state is not looked at). A walk that hits goes on to its
// end, so that the next one starts at the same place of the generator whatever is
// looked for. It ends early only where nothing is offered. The graph must be
// complete.
func (g *Graph[S, A]) Walk(property string, o WalkOptions) (Walks, error) {
	p, err := g.property(property)
	if err == nil {
		err = g.whole(o.Steps)
	}
	if err != nil {
		return Walks{}, err
	}
	f, marked := g.forward(), g.Marked(p)
	random := NewTwister(o.Seed)
	first := make([]int, o.Steps+1) // walks by the step of their first hit
	out := Walks{Walks: o.Walks, Steps: o.Steps}
	for range o.Walks {
		at, hit := uint32(0), 0
		for step := 1; step <= o.Steps; step++ {
			offered := f.out(int(at))
			if len(offered) == 0 {
				break
			}
			at = offered[random.Choose(len(offered))]
			if hit == 0 && marked[at] {
				hit = step
			}
		}
		if hit > 0 {
			out.Hits++
			first[hit]++
		}
	}
	out.Median = median(first, out.Hits)
	return out, nil
}

// median of a sample given as counts by value: the middle, or the mean of the two
// middle ones.
func median(counts []int, total int) float64 {
	if total == 0 {
		return 0
	}
	at := func(rank int) int {
		for value, n := range counts {
			if rank -= n; rank < 0 {
				return value
			}
		}
		return 0 // unreachable: total is the sum of counts
	}
	return float64(at((total-1)/2)+at(total/2)) / 2
}

// Chance is what a sample of walks tends to.
type Chance struct {
	// ByStep is the probability that a walk has hit within so many steps; index 0
	// is 0.
	ByStep []float64 `json:"by_step"`

	// Median is the first step by which half of the walks that hit have hit; 0 when
	// none does.
	Median int `json:"median"`
}

// Probability of a hit within all the steps.
func (c Chance) Probability() float64 { return c.ByStep[len(c.ByStep)-1] }

// Exact returns what Walk samples: the walk's distribution over the states,
// carried on step by step. The graph must be complete.
func (g *Graph[S, A]) Exact(property string, steps int) (Chance, error) {
	p, err := g.property(property)
	if err == nil {
		err = g.whole(steps)
	}
	if err != nil {
		return Chance{}, err
	}
	f, marked := g.forward(), g.Marked(p)
	now, next := make([]float64, g.States()), make([]float64, g.States()) // of walks that have not hit yet
	now[0] = 1
	c := Chance{ByStep: make([]float64, steps+1)}
	for step := 1; step <= steps; step++ {
		c.ByStep[step] = c.ByStep[step-1]
		for from, here := range now {
			offered := f.out(from)
			for _, to := range offered {
				if share := here / float64(len(offered)); marked[to] {
					c.ByStep[step] += share
				} else {
					next[to] += share
				}
			}
			now[from] = 0
		}
		now, next = next, now
	}
	for step := steps; step > 0 && c.ByStep[step] > 0 && 2*c.ByStep[step] >= c.Probability(); step-- {
		c.Median = step
	}
	return c, nil
}
