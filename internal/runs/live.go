package runs

import (
	"context"
	"sync"
	"time"

	"briefrail/internal/jobs"
	"briefrail/internal/rail"
)

// live is the set of claims that this process holds.
type live struct {
	mu    sync.Mutex
	slots int
	held  map[rail.UUID]*holding
	freed chan struct{} // a slot came free: knocks, carries nothing
}

// holding is one claim. renewed is the instant, by the monotonic clock and before
// the call that set it, from which the lease is known to hold.
type holding struct {
	claim   jobs.Claim
	cancel  context.CancelCauseFunc
	started time.Time
	renewed time.Time
}

func newLive(slots int) *live {
	return &live{slots: slots, held: make(map[rail.UUID]*holding, slots), freed: make(chan struct{}, 1)}
}

func (l *live) free() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.slots-len(l.held))
}

func (l *live) add(c Claimed, cancel context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[c.Token.Run] = &holding{claim: c.Claim, cancel: cancel, started: time.Now(), renewed: c.leased}
}

func (l *live) remove(run rail.UUID) {
	l.mu.Lock()
	delete(l.held, run)
	l.mu.Unlock()
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// due returns the claims whose lease was last renewed at least after ago.
func (l *live) due(after time.Duration) []jobs.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []jobs.Claim
	for _, h := range l.held {
		if time.Since(h.renewed) >= after {
			out = append(out, h.claim)
		}
	}
	return out
}

func (l *live) renewedAt(run rail.UUID, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[run]; h != nil {
		h.renewed = at
	}
}

func (l *live) end(run rail.UUID, cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[run]
	if h == nil {
		return false
	}
	h.cancel(cause)
	return true
}

// endLapsed ends the builds whose lease can no longer be trusted.
func (l *live) endLapsed(lease time.Duration) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		if time.Since(h.renewed) >= lease {
			h.cancel(errLeaseLost)
			n++
		}
	}
	return n
}

// ages returns how many claims are held, the sum of their ages and the largest.
func (l *live) ages() (n int, sum, longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		age := time.Since(h.started)
		sum += age
		longest = max(longest, age)
	}
	return len(l.held), sum, longest
}
