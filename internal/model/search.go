package model

import (
	"context"
	"fmt"
	"math"
)

// Options bound a search. The zero value is usable.
type Options struct {
	// MaxStates ends the search with a LimitError before it holds more states.
	// Zero is DefaultMaxStates; at most 2^32 - 2.
	MaxStates int

	// Edges keeps the target of every transition, four bytes each, so that Edges,
	// Schedules and walks need not look them up again. A model with a Recoverable
	// property keeps them anyway.
	Edges bool

	// Progress is called after every level and about every 100 000 expanded states,
	// in the searching goroutine. Depth is the level being expanded. Optional.
	Progress func(states, transitions, depth int)
}

// DefaultMaxStates is some gigabyte of memory for a state of 32 bytes.
const DefaultMaxStates = 10_000_000

// LimitError says that a model has more states than the search may hold.
type LimitError struct {
	Model       string
	Limit       int // states
	Transitions int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("model %s: stopped after %d states, %d transitions: the limit is %d states: raise MaxStates (railctl model: --max-states), or ask for fewer workers or faults",
		e.Model, e.Limit, e.Transitions, e.Limit)
}

const (
	askEvery  = 1 << 10 // expanded states between two looks at the context
	tellEvery = 100 * askEvery
)

// Search explores the model breadth first, first in first out, and returns what it
// found. When the context ends or the limit is reached it returns the part found so
// far (Complete is false) and an error that says how far it came; the part's
// violations are real, but nothing in it is claimed to hold.
func Search[S, A comparable](ctx context.Context, m Model[S, A], opts Options) (*Graph[S, A], error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	switch {
	case opts.MaxStates == 0:
		opts.MaxStates = DefaultMaxStates
	case opts.MaxStates < 0 || opts.MaxStates > math.MaxUint32-1:
		return nil, fmt.Errorf("model %s: MaxStates %d: give 1 to %d, or 0 for %d", m.Name, opts.MaxStates, math.MaxUint32-1, DefaultMaxStates)
	}
	g := &Graph[S, A]{model: m, known: newSet[S]()}
	b := &search[S, A]{Graph: g, opts: opts, keep: opts.Edges || m.recoverable()}
	return g, b.run(ctx)
}

// search is a Graph under construction.
type search[S, A comparable] struct {
	*Graph[S, A]
	opts Options
	keep bool // targets

	from uint32 // the state being expanded
	seen int    // steps out of it
	full bool   // one of them did not fit
}

// run expands states until there are none left, or until it must stop.
func (b *search[S, A]) run(ctx context.Context) error {
	b.visit(b.model.Initial) // state 0, its own parent
	b.edges.targets, b.seen = nil, 0
	visit := func(_ A, to S) { b.visit(to) } // made once: a closure per state would be garbage
	level := 1                               // first state of the next level
	for b.expanded < b.known.count {
		if b.expanded == level {
			level = b.known.count
			b.depth++
			b.tell()
		}
		if b.expanded%askEvery == 0 {
			if ctx.Err() != nil {
				return fmt.Errorf("model %s: stopped after %d states, %d transitions: %w", b.model.Name, b.known.count, b.transitions, context.Cause(ctx))
			}
			if b.expanded%tellEvery == 0 {
				b.tell()
			}
		}
		b.from, b.seen = uint32(b.expanded), 0
		b.model.Next(*b.known.at(b.from), visit)
		if b.full { // the state counts as not expanded, and its steps as not seen
			b.edges.targets = b.edges.targets[:min(b.transitions, len(b.edges.targets))]
			return &LimitError{Model: b.model.Name, Limit: b.opts.MaxStates, Transitions: b.transitions}
		}
		b.transitions += b.seen
		b.expanded++
		if b.keep {
			b.edges.ends = append(b.edges.ends, b.transitions)
		}
	}
	b.tell()
	return nil
}

// visit records one step out of b.from.
func (b *search[S, A]) visit(to S) {
	id, half, slot, known := b.known.find(&to)
	if !known {
		if b.known.count >= b.opts.MaxStates {
			b.full = true
			return
		}
		id = b.known.add(&to, half, slot)
		b.parents = append(b.parents, b.from)
	}
	b.seen++
	if b.keep {
		b.edges.targets = append(b.edges.targets, id)
	}
}

// tell reports progress to whoever wants it.
func (b *search[S, A]) tell() {
	if b.opts.Progress != nil {
		b.opts.Progress(b.known.count, b.transitions, b.depth)
	}
}
