package relay

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
)

// call is what one call of each sink will carry.
type call struct{ facts []outbox.Pending }

const (
	minIdle   = 100 * time.Millisecond
	maxFaults = 10 // times MaxIdle: the longest pause while the database is away
)

// drain reads until ctx ends. A reading that a limit ended is followed by the next
// at once; one that brought nothing by a growing pause.
func (r *Relay) drain(ctx context.Context, calls chan<- call) {
	idle, faults := minIdle, time.Duration(0)
	for ctx.Err() == nil {
		more, found, err := r.fill(ctx, calls)
		switch {
		case err != nil && ctx.Err() == nil:
			r.opts.Loops.Failed("relay", pg.Class(err))
			r.opts.Log.ErrorContext(ctx, "outbox not read", slog.String("err", pg.Text(err, 300)), slog.String("sqlstate", pg.SQLState(err)))
			faults = min(max(2*faults, minIdle), maxFaults*r.opts.MaxIdle)
			sleep(ctx, faults/2+rand.N(faults/2+1))
			continue
		case found:
			idle = minIdle
		default:
			idle = min(2*idle, r.opts.MaxIdle)
		}
		faults = 0
		r.opts.Loops.Progress("relay")
		if more {
			r.waitForRoom(ctx)
		} else {
			sleep(ctx, idle)
		}
	}
}

// waitForRoom returns when the hand is at most half full, or after MaxIdle at the
// latest: the loop turns, whatever the sinks do.
func (r *Relay) waitForRoom(ctx context.Context) {
	timer := time.NewTimer(r.opts.MaxIdle)
	defer timer.Stop()
	for r.hand.size() > r.most()/2 {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-r.room:
		}
	}
}

// fill reads as many facts as there is room for and hands them on as calls.
func (r *Relay) fill(ctx context.Context, calls chan<- call) (more, found bool, err error) {
	limit := r.space()
	if limit <= 0 {
		return false, false, nil
	}
	l, full := r.hand.look(limit)
	l.Sinks = r.callable()
	start := time.Now()
	facts, cut, err := outbox.Batch(ctx, r.db, r.holder, l)
	if err != nil {
		return false, false, err
	}
	r.hand.read(l, facts, full, cut, time.Since(start))
	for _, c := range r.pack(facts) {
		calls <- c // never full: it has a place for each fact that may be in hand
	}
	return cut, len(facts) > 0, nil
}

// callable names the sinks that would be called now.
func (r *Relay) callable() (names []string) {
	for _, s := range r.sinks {
		if s.gate.open() {
			names = append(names, s.Name)
		}
	}
	return names
}

// space is how many facts may be read now. While all sinks are paused that is none,
// when one of them is to be probed what one call carries, and while one throttles what
// it will take soon: facts that wait in hand keep their buckets from moving.
func (r *Relay) space() int {
	entries, _ := r.limits()
	most, held, anyOpen := r.most(), r.hand.size(), false
	for _, s := range r.sinks {
		if _, _, paused := s.gate.paused(); paused {
			continue
		}
		anyOpen = true
		if calls, limited := s.gate.soon(); limited {
			most = min(most, max(calls, r.opts.Inflight)*entries)
		}
	}
	switch {
	case anyOpen:
		return most - held
	case held > 0 || len(r.callable()) == 0:
		return 0
	}
	return entries
}

// pack cuts facts into calls by number and by bytes (field report 11). One that is
// too large alone gets a call of its own, for the sink to judge.
func (r *Relay) pack(facts []outbox.Pending) (out []call) {
	entries, bytes := r.limits()
	var c call
	size := 0
	for _, f := range facts {
		n := nudge.Size(nudgeOf(f))
		if len(c.facts) > 0 && (len(c.facts) == entries || size+n > bytes) {
			out, c, size = append(out, c), call{}, 0
		}
		c.facts, size = append(c.facts, f), size+n
	}
	if len(c.facts) > 0 {
		out = append(out, c)
	}
	return out
}

func nudgeOf(f outbox.Pending) nudge.Nudge {
	return nudge.Nudge{
		Event: f.Event, Firm: f.Firm, Matter: f.Matter, Name: f.Name,
		TraceParent: f.TraceParent, TraceState: f.TraceState,
	}
}
