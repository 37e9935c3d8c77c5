package model

import (
	"context"
	"fmt"
	"runtime"
)

// Options bound a search. The zero value is usable.
type Options struct {
	// MaxStates ends the search with a LimitError before it holds more states.
	// Zero is DefaultMaxStates; at most 2^31.
	MaxStates int

	// Edges keeps the target of every transition, four bytes each, so that Edges,
	// Schedules and walks need not look them up again. A model with a Recoverable
	// property keeps them anyway.
	Edges bool

	// Parallel is how many goroutines call Next at the same time: 1 none but the
	// caller's, 0 as many as there are cores. The outcome does not depend on it;
	// what it gains is the time that Next takes, as states are numbered by one.
	Parallel int

	// Progress is called after every level and about every 100 000 expanded states,
	// in the caller's goroutine. Depth is the level being expanded. Optional.
	Progress func(states, transitions, depth int)
}

// mostStates have numbers, and slots that are not too full, of 32 bits.
const mostStates = 1 << 31

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

const tellEvery = 100_000 // expanded states between two reports of progress

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
	case opts.MaxStates < 0 || opts.MaxStates > mostStates:
		return nil, fmt.Errorf("model %s: MaxStates %d: give 1 to %d, or 0 for %d", m.Name, opts.MaxStates, mostStates, DefaultMaxStates)
	}
	if opts.Parallel == 0 {
		opts.Parallel = runtime.GOMAXPROCS(0)
	}
	g := &Graph[S, A]{model: m, known: newSet[S]()}
	b := &search[S, A]{Graph: g, opts: opts, keep: opts.Edges || m.recoverable()}
	return g, b.run(ctx)
}

// search is a Graph under construction. States are expanded by the chunk, and the
// steps of a chunk are then settled (looked up, numbered) together and in order: a
// look-up waits for memory, and so many waits overlap. Chunks may be expanded
// elsewhere and early; they are settled here, one after the other. So the outcome
// is that of one state at a time.
type search[S, A comparable] struct {
	*Graph[S, A]
	opts Options
	keep bool   // targets
	warm uint64 // no figure: where settle's loads go, so that they are made
	crew *crew[S, A]
}

// run expands level after level until there are no states left, or until it must
// stop.
func (b *search[S, A]) run(ctx context.Context) error {
	b.number(&step[S]{to: b.model.Initial, half: b.known.hash.half(&b.model.Initial)}) // state 0, its own parent
	b.crew = muster(&b.model, b.known, b.opts.Parallel)
	defer b.crew.dismiss()
	for depth := 0; b.expanded < b.known.count; depth++ {
		b.depth = depth
		b.tell()
		if err := b.level(ctx, uint32(b.expanded), uint32(b.known.count)); err != nil {
			return err
		}
	}
	b.tell()
	return nil
}

// level expands the states from next to end, which are all that have their depth.
func (b *search[S, A]) level(ctx context.Context, next, end uint32) error {
	for b.expanded < int(end) {
		for next < end && b.crew.room() {
			states := b.known.run(next, min(next+chunkStates, end))
			b.crew.expand(next, states)
			next += uint32(len(states))
		}
		c := b.crew.oldest()
		if err := b.settle(c); err != nil {
			return err
		}
		b.crew.reuse(c)
		if b.expanded%tellEvery < chunkStates {
			b.tell()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("model %s: stopped after %d states, %d transitions: %w", b.model.Name, b.known.count, b.transitions, context.Cause(ctx))
		}
	}
	return nil
}

// settle gives every target of a chunk its number. States whose steps did not all
// fit count as not expanded, and their steps as not seen.
func (b *search[S, A]) settle(c *chunk[S]) error {
	for i := range c.steps { // nothing but loads, so that they overlap
		b.warm |= b.known.first(c.steps[i].half)
	}
	seen := b.transitions
	for i := range c.steps {
		p := &c.steps[i]
		b.close(p.from, seen)
		id, ok := b.number(p)
		if !ok {
			b.edges.targets = b.edges.targets[:min(b.transitions, len(b.edges.targets))]
			return &LimitError{Model: b.model.Name, Limit: b.opts.MaxStates, Transitions: b.transitions}
		}
		seen++
		if b.keep {
			b.edges.targets = append(b.edges.targets, id)
		}
	}
	b.close(c.first+uint32(len(c.states)), seen)
	return nil
}

// number finds or makes the number of a target, false when there is no room.
func (b *search[S, A]) number(p *step[S]) (uint32, bool) {
	id, slot, known := b.known.find(&p.to, p.half)
	if known {
		return id, true
	}
	if b.known.count >= b.opts.MaxStates {
		return 0, false
	}
	return b.known.add(&p.to, p.from, p.half, slot), true
}

// close marks the states before until as expanded, with so many steps up to here.
func (b *search[S, A]) close(until uint32, seen int) {
	for ; b.expanded < int(until); b.expanded++ {
		b.transitions = seen
		if b.keep {
			b.edges.ends = append(b.edges.ends, seen)
		}
	}
}

// tell reports progress to whoever wants it.
func (b *search[S, A]) tell() {
	if b.opts.Progress != nil {
		b.opts.Progress(b.known.count, b.transitions, b.depth)
	}
}
