package relay

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
)

// gate decides whether a sink may be called now: open; paused until an instant; or
// past it, when one call may probe.
type gate struct {
	pauses  outbox.Backoff
	mu      sync.Mutex
	until   time.Time // zero while open
	backoff time.Duration
	why     string
	probing bool // a call past until is under way
	pace    pace
}

// paused tells until when the sink is paused, and why.
func (g *gate) paused() (until time.Time, why string, yes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until, g.why, !g.until.IsZero()
}

// open reports whether a call would be let in now, were it not for its turn.
func (g *gate) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.shut()
}

// shut is while the sink is paused, but for one call that probes. g.mu is held.
func (g *gate) shut() bool {
	return !g.until.IsZero() && (g.probing || time.Now().Before(g.until))
}

// soon is how many calls will have their turn within two seconds, while the rate is
// limited.
func (g *gate) soon() (calls int, limited bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int(2 * g.pace.rate), g.pace.rate > 0
}

// enter waits for the call's turn. It is false when the sink is paused and not to be
// probed yet, or ctx has ended: then the call is not to be made. Whoever is let in
// tells what the sink said, or leaves.
func (g *gate) enter(ctx context.Context) bool {
	g.mu.Lock()
	shut := g.shut()
	wait := time.Duration(0)
	if !shut {
		wait, g.probing = g.pace.reserve(time.Now()), !g.until.IsZero()
	}
	g.mu.Unlock()
	if shut {
		return false
	}
	if (wait > 0 && !sleep(ctx, wait)) || ctx.Err() != nil {
		g.leave()
		return false
	}
	return true
}

// leave gives back a turn that was not used.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = false
}

// mood is what one call says of its sink, whatever became of its entries.
type mood int

const (
	fine      mood = iota
	slow           // it throttles
	absent         // no answer: nobody knows whether anything was taken
	forbidden      // nothing is taken until somebody configures it
)

// moodOf judges an answer. One entry that was taken shows that the sink is there and
// lets us in, so a name that alone is forbidden does not pause the others.
func moodOf(results []nudge.Result) (m mood, code, text string) {
	var sent, throttled int
	for _, r := range results {
		switch {
		case r.Verdict == nudge.Sent:
			sent++
		case r.Verdict == nudge.Paused:
			m, code, text = forbidden, r.Code, r.Text
		case nudge.Throttled(r.Code):
			throttled++
		}
	}
	switch {
	case m == forbidden && sent == 0:
		return m, code, text
	case 2*throttled >= len(results) && throttled > 0:
		return slow, "", ""
	}
	return fine, "", ""
}

func moodOfError(err error) (m mood, code string) {
	verdict, code := nudge.ClassOf(err)
	switch {
	case verdict == nudge.Paused:
		return forbidden, code
	case nudge.Throttled(code):
		return slow, code
	}
	return absent, code
}

// change is what an answer did to the gate.
type change int

const (
	same change = iota
	nowPaused
	nowOpen
)

// said takes the mood of a call. Calls that were under way when a pause began say
// nothing new.
func (g *gate) said(m mood, why string) change {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, was := time.Now(), !g.until.IsZero()
	g.probing = false
	probed := was && !now.Before(g.until)
	switch {
	case m == forbidden && was && !probed:
		return same
	case m == forbidden, m == absent && probed:
		g.backoff = min(max(2*g.backoff, g.pauses.First), g.pauses.Max)
		g.until, g.why = now.Add(g.backoff/2+rand.N(g.backoff/2)), why
		if was {
			return same
		}
		return nowPaused
	}
	g.pace.answered(now, m != fine)
	if !was || m == absent {
		return same
	}
	g.until, g.backoff, g.why = time.Time{}, 0, ""
	return nowOpen
}

// sleep reports whether it lasted as long as it should.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
