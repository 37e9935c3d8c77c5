package telemetry

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Check is one thing that readiness depends on. Probe should honour its context;
// it is never run twice at once.
type Check struct {
	Name  string
	Probe func(ctx context.Context) error
}

// errSlow is the answer of a probe that gave none.
var errSlow = errors.New("no answer in time")

// cachedCheck keeps the last answer of a check, so that probes and curious people
// cannot load the database.
type cachedCheck struct {
	Check
	ttl, limit time.Duration
	mu         sync.Mutex
	at         time.Time // of the last answer; zero before the first
	err        error
	running    chan struct{} // closed when the probe in flight has answered
}

// result returns the cached answer while it is fresh, else a new one. A probe
// that does not answer within the limit counts as failed and is left to end by
// itself; until then nobody starts another.
func (c *cachedCheck) result(ctx context.Context) error {
	done := c.start(ctx)
	if done != nil {
		timer := time.NewTimer(c.limit)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			return errSlow
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// start returns nil when the cached answer will do, else a channel to wait on.
func (c *cachedCheck) start(ctx context.Context) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != nil {
		return c.running
	}
	if !c.at.IsZero() && time.Since(c.at) < c.ttl {
		return nil
	}
	c.running = make(chan struct{})
	// The answer is for everybody who waits, so it outlives the first asker.
	go c.probe(context.WithoutCancel(ctx), c.running)
	return c.running
}

func (c *cachedCheck) probe(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	err := c.Probe(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.at, c.running = err, time.Now(), nil
	close(done)
}
