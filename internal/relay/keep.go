package relay

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"briefrail/internal/outbox"
	"briefrail/internal/pg"
)

// keep holds this relay's share of the buckets until ctx ends. Before the first
// lease it says that facts have to be published from now on, or retention could take
// what was not.
func (r *Relay) keep(ctx context.Context) {
	counted := time.Time{}
	required := false
	for pause := time.Duration(0); ; {
		next, err := r.lease(ctx, &required)
		if err == nil {
			pause = 0
			r.countParked(ctx, &counted)
		} else if ctx.Err() == nil {
			r.opts.Loops.Failed("relay", pg.Class(err))
			r.opts.Log.ErrorContext(ctx, "buckets not leased", slog.String("err", pg.Text(err, 300)), slog.String("sqlstate", pg.SQLState(err)))
			pause = min(max(2*pause, 100*time.Millisecond), r.opts.Lease/3)
			next = pause/2 + rand.N(pause/2+1)
		}
		if !sleep(ctx, next) {
			return
		}
	}
}

// lease asks for the share and returns when to ask again.
func (r *Relay) lease(ctx context.Context, required *bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Lease)
	defer cancel()
	if !*required {
		changed, err := outbox.RequirePublishing(ctx, r.db, r.opts.Name)
		if err != nil {
			return 0, err
		}
		*required = true
		if changed {
			r.opts.Log.InfoContext(ctx, "publishing is required from now on")
		}
	}
	asked := time.Now() // before the database counts: ours ends first
	share, err := outbox.LeaseBuckets(ctx, r.db, r.holder, r.opts.Lease, r.hand.busy())
	if err != nil {
		return 0, err
	}
	r.hand.own(share.Leases, asked.Add(r.opts.Lease))
	return r.askAgain(share), nil
}

const (
	soon      = time.Second // while the shares are not even yet
	justAfter = 50 * time.Millisecond
)

// askAgain is a third of the lease, or right after another relay's lease ends, or
// soon while buckets are on their way from one relay to another.
func (r *Relay) askAgain(s outbox.Share) time.Duration {
	next := r.opts.Lease / 3
	if s.NextExpiry > 0 {
		next = min(next, s.NextExpiry+justAfter)
	}
	if s.Missing > 0 {
		next = min(next, soon)
	}
	for _, l := range s.Leases {
		if l.Leaving {
			next = min(next, soon)
		}
	}
	return next - rand.N(next/10+1)
}

// countEvery is how long the number of parked facts is good.
const countEvery = 15 * time.Second

func (r *Relay) countParked(ctx context.Context, last *time.Time) {
	if time.Since(*last) < countEvery {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Lease)
	defer cancel()
	n, err := outbox.CountParked(ctx, r.db)
	r.metrics.parked.set(n, err)
	*last = time.Now()
}
