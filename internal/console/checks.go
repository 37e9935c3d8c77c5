package console

import (
	"context"
	"sync"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/pg"
)

const (
	checkEvery   = time.Minute
	checkWindow  = time.Hour
	checkTimeout = 10 * time.Second // of each invariant's question
)

// checks keeps the last word on the invariants, and asks again at most once a minute
// while somebody looks at pages.
type checks struct {
	db     DB
	wanted chan struct{} // of one

	mu   sync.Mutex
	last checked
}

// checked is one check; the zero value is none yet.
type checked struct {
	At     time.Time `json:"-"` // of this process: it is an age and nothing else
	Holds  int
	Broken []audit.Finding // broken, or not to be asked
	Err    string
}

func newChecks(db DB) *checks { return &checks{db: db, wanted: make(chan struct{}, 1)} }

func (x *checks) want() { wake(x.wanted) }

func (x *checks) now() checked {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last
}

func (x *checks) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-x.wanted:
		}
		if time.Since(x.now().At) < checkEvery {
			continue
		}
		x.check(ctx)
	}
}

func (x *checks) check(ctx context.Context) {
	found, err := audit.Check(ctx, x.db, audit.CheckOptions{Window: checkWindow, Timeout: checkTimeout})
	last := checked{At: time.Now()}
	if err != nil {
		last.Err = pg.Text(err, 300)
	}
	for _, f := range found {
		if f.Healthy() {
			last.Holds++
		} else {
			last.Broken = append(last.Broken, f)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = last
}
