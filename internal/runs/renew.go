package runs

import (
	"context"
	"log/slog"
	"time"

	"briefrail/internal/jobs"
	"briefrail/internal/pg"
)

// renewLoop renews every live claim each third of its lease, all in one statement,
// and ends the builds that lost theirs. It looks four times as often, so that a
// failed or skipped renewal is tried again soon. With nothing live it asks nothing.
func (r *Runner) renewLoop(ctx context.Context) error {
	tick := time.NewTicker(max(r.opts.Lease/12, time.Millisecond))
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if stalled := time.Since(last) > r.opts.Lease/2; !stalled {
				r.keepLeases(ctx)
			}
			// After a stall (a stopped process, a suspended machine) what arrived
			// meanwhile goes first, for one tick: the ledger then judges and notes
			// the late writes themselves, which says more than a refused renewal.
			last = time.Now()
		}
	}
}

func (r *Runner) keepLeases(ctx context.Context) {
	if r.opts.Renew {
		r.renewDue(ctx)
	}
	r.live.endLapsed(r.opts.Lease)
}

func (r *Runner) renewDue(ctx context.Context) {
	due := r.live.due(r.opts.Lease / 3)
	if len(due) == 0 {
		return
	}
	// counted from before the call: the answer may be late
	before := time.Now()
	call, cancel := context.WithTimeout(ctx, r.opts.Lease/3)
	defer cancel()
	verdicts, err := jobs.Renew(call, r.db, due, r.opts.Lease)
	if err != nil {
		if ctx.Err() == nil {
			r.metrics.renewals.WithLabelValues("error").Add(float64(len(due)))
			r.opts.Log.WarnContext(ctx, "leases not renewed", slog.Int("claims", len(due)), slog.String("err", pg.Text(err, 200)))
		}
		return
	}
	for i, v := range verdicts {
		r.renewed(ctx, due[i], v, before)
	}
}

func (r *Runner) renewed(ctx context.Context, c jobs.Claim, v jobs.Renewal, before time.Time) {
	switch v {
	case jobs.Renewed:
		r.metrics.renewals.WithLabelValues("renewed").Inc()
		r.live.renewedAt(c.Token.Run, before)
	case jobs.Locked:
		r.metrics.renewals.WithLabelValues("locked").Inc()
	case jobs.Fenced:
		// a landing of ours may have just moved the row: then nothing is live here
		if r.live.end(c.Token.Run, errTokenLost) {
			r.metrics.renewals.WithLabelValues("fenced").Inc()
			r.opts.Log.DebugContext(ctx, "claim is no longer ours", keyAttrs(c)...)
		}
	}
}
