package runs

import (
	"context"
	"log/slog"
	"time"

	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// scanner bounds how many queued rows of a firm and priority a pick reads. One whose
// first rows are all settling or backing off would cost every pick the whole queue; so a
// pick reads the head only, and now and then, when slots stayed empty, all of it:
// once a second, or less often where that look takes long.
type scanner struct {
	lastFull time.Time
	every    time.Duration // between two full looks
	full     bool          // the next pick reads everything
	looking  bool          // the last one did, and has not been judged
	// timed: it is worth to ask when the next queued row is due, as something has
	// just changed here or was due soon. An idle worker polls without: its pause is
	// the longest that a row of somebody else's can be late.
	timed bool
	// reach bounds how much that is dead a pick passes
	reach jobs.Horizon
}

const (
	headRows  = 256
	fullEvery = time.Second
	fullShare = 20 // one part in this of the time may go into full looks
)

func newScanner() *scanner { return &scanner{full: true, timed: true, every: fullEvery} }

// rows is the Scan option of the next pick; 0 reads everything.
func (s *scanner) rows() int {
	if !s.full {
		return headRows
	}
	s.full, s.looking, s.lastFull = false, true, time.Now()
	return 0
}

// saw notes whether a pick filled every slot.
func (s *scanner) saw(filled bool) {
	if s.looking {
		s.looking, s.every = false, max(fullEvery, fullShare*time.Since(s.lastFull))
	}
	if !filled && time.Since(s.lastFull) >= s.every {
		s.full = true
	}
}

// claim claims, and when slots stay free and scan wants it asks when the next queued
// row is due. A stop does not end it for a while: a claim that is won has to be known
// to be handed back.
func (r *Runner) claim(ctx context.Context, n int, o ClaimOptions, scan *scanner) ([]Claimed, time.Duration, error) {
	stopping := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*claimTimeout)
	defer cancel()
	defer context.AfterFunc(stopping, func() { time.AfterFunc(stopLanding, cancel) })()
	o.Reach = scan.reach.Next(ctx, r.db)
	begun := time.Now()
	claimed, err := ClaimSettled(ctx, r.db, n, o, pauseBetweenTries)
	if err != nil {
		return nil, 0, err
	}
	scan.reach.Looked(o.Reach, time.Since(begun))
	r.probeSettled(claimed, o)
	if len(claimed) == n || !scan.timed {
		return claimed, 0, nil
	}
	// a claim that is won must be started: a failed look at the clock is no error
	due, err := jobs.NextDue(ctx, r.db, o.Reach)
	if err != nil {
		due = 0
	}
	return claimed, due, nil
}

// probeSettled names the probing build, or gives an unused probe back: none was
// won, or only the canary, which says nothing of the builder.
func (r *Runner) probeSettled(claimed []Claimed, o ClaimOptions) {
	if !o.Only.IsZero() {
		return
	}
	var run rail.UUID
	if len(claimed) > 0 && claimed[0].Key != rail.Canary() {
		run = claimed[0].Token.Run
	}
	r.health.probeIs(run)
}

// claimFailed counts it. A claim whose outcome could not be learnt may have been
// won: then its run ends as expired by the sweep, one attempt dearer, and nothing is
// lost.
func (r *Runner) claimFailed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.metrics.claims.WithLabelValues("error").Inc()
	r.opts.Loops.Failed("claim", pg.Class(err))
	r.opts.Log.ErrorContext(ctx, "nothing claimed", slog.String("err", pg.Text(err, 300)), slog.String("sqlstate", pg.SQLState(err)))
}
