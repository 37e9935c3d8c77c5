package model

import "sync"

// chunkStates are expanded together: enough steps to settle at once, and few
// enough for a small level to be shared.
const chunkStates = 64

// chunk is a run of states and, once it is expanded, the steps out of them.
type chunk[S comparable] struct {
	first  uint32 // number of states[0]
	states []node[S]
	steps  []step[S]     // by their source, in order
	ready  chan struct{} // receives once steps are complete
}

// step is a transition whose target has no number yet.
type step[S comparable] struct {
	to   S
	from uint32
	half uint32 // of the target's hash
}

// crew expands chunks, here or in goroutines of its own, and gives them back in the
// order in which it got them.
type crew[S, A comparable] struct {
	model  *Model[S, A]
	known  *set[S]
	orders chan *chunk[S] // nil for a crew of none
	hands  sync.WaitGroup
	queue  []*chunk[S] // in order, the oldest first
	most   int         // of the queue
	spare  []*chunk[S]
}

// muster makes a crew of so many goroutines, none for less than two.
func muster[S, A comparable](m *Model[S, A], known *set[S], hands int) *crew[S, A] {
	c := &crew[S, A]{model: m, known: known, most: 1}
	if hands < 2 {
		return c
	}
	c.most = 4 * hands
	c.orders = make(chan *chunk[S], c.most)
	for range hands {
		c.hands.Go(c.work)
	}
	return c
}

// dismiss ends the crew's goroutines and waits for them.
func (c *crew[S, A]) dismiss() {
	if c.orders != nil {
		close(c.orders)
		c.hands.Wait()
	}
}

// work is one goroutine's life.
func (c *crew[S, A]) work() {
	for k := range c.orders {
		c.fill(k)
		k.ready <- struct{}{}
	}
}

// room reports whether another chunk may be handed in.
func (c *crew[S, A]) room() bool { return len(c.queue) < c.most }

// expand hands in a chunk.
func (c *crew[S, A]) expand(first uint32, states []node[S]) {
	var k *chunk[S]
	if n := len(c.spare); n > 0 {
		k, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		k = &chunk[S]{ready: make(chan struct{}, 1)}
	}
	k.first, k.states, k.steps = first, states, k.steps[:0]
	c.queue = append(c.queue, k)
	if c.orders == nil {
		c.fill(k)
		return
	}
	c.orders <- k
}

// oldest waits for the chunk that was handed in first.
func (c *crew[S, A]) oldest() *chunk[S] {
	k := c.queue[0]
	c.queue = append(c.queue[:0], c.queue[1:]...)
	if c.orders != nil {
		<-k.ready
	}
	return k
}

// reuse takes back a chunk that is settled.
func (c *crew[S, A]) reuse(k *chunk[S]) { c.spare = append(c.spare, k) }

// fill collects the steps of a chunk and hashes their targets.
func (c *crew[S, A]) fill(k *chunk[S]) {
	from := k.first
	collect := func(_ A, to S) {
		k.steps = append(k.steps, step[S]{to: to, from: from})
	}
	for i := range k.states {
		c.model.Next(k.states[i].state, collect)
		from++
	}
	for i := range k.steps {
		k.steps[i].half = c.known.hash.half(&k.steps[i].to)
	}
}
