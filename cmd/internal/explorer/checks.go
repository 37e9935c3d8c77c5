package explorer

import (
	"context"
	"errors"
	"sync"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

// keptReports is how many outcomes are remembered. A report is small; the search
// behind it is not.
const keptReports = 64

// errBusy says that the queue of checks did not move in time.
var errBusy = errors.New("another check has been going on for too long: try again in a moment")

// checks runs searches, one at a time, and remembers how they ended: a variant's
// outcome never changes.
type checks struct {
	opts Options
	turn chan struct{} // of one: holds the right to search

	mu    sync.Mutex
	known map[string]specs.Report // by title
}

func newChecks(opts Options) *checks {
	return &checks{opts: opts, turn: make(chan struct{}, 1), known: map[string]specs.Report{}}
}

// report is the outcome for one variant. A search that reached one of its limits
// has a report that is not complete, and no error.
func (c *checks) report(ctx context.Context, v specs.Checked) (specs.Report, error) {
	if r, ok := c.recall(v.Title()); ok {
		return r, nil
	}
	bounded, cancel := context.WithTimeout(ctx, c.opts.CheckTime)
	defer cancel()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-bounded.Done():
		return specs.Report{}, errBusy
	}
	if r, ok := c.recall(v.Title()); ok { // the one before asked the same
		return r, nil
	}
	r, err := v.Check(bounded, model.Options{MaxStates: c.opts.MaxStates})
	var limit *model.LimitError
	switch {
	case err == nil, errors.As(err, &limit):
		c.remember(v.Title(), r)
		return r, nil
	case ctx.Err() != nil:
		return specs.Report{}, err
	case bounded.Err() != nil:
		return r, nil // on a quieter machine it may come further, so it is not remembered
	}
	return r, err
}

func (c *checks) recall(title string) (specs.Report, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.known[title]
	return r, ok
}

func (c *checks) remember(title string, r specs.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.known { // whichever comes first: asking again costs one search
		if len(c.known) < keptReports {
			break
		}
		delete(c.known, other)
	}
	c.known[title] = r
}
