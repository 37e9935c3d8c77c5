package runs

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"briefrail/internal/rail"
)

// Loops is told about each turn of a loop.
type Loops interface {
	Progress(loop string)
	Failed(loop, class string)
}

// Options of a Runner. All durations and counts must be positive unless said.
type Options struct {
	Worker       string // name of this process in runs and logs
	Slots        int    // builds at once
	Lease        time.Duration
	Renew        bool // off only where Lease outlasts BuildTimeout
	Retry        Retry
	Quiet        time.Duration // settle time of a follow-up
	StopGrace    time.Duration // what running builds get at a stop before they are handed back
	BuildTimeout time.Duration
	BuilderName  string // kind, for the run row
	MaxFrame     int64  // bytes
	KeepFrames   int    // frames a matter
	PerFirm      int    // 0 for no limit
	Total        int    // 0 for no limit
	MaxIdle      time.Duration
	Tracer       rail.Tracer // nil for no traces
	Origin       Origin      // of what is traced; may be nil
	Loops        Loops
	Log          *slog.Logger
}

// Runner claims, builds and lands, up to Slots at once. Any number may run.
type Runner struct {
	db      DB
	builder Builder
	opts    Options
	metrics *metrics
	health  *health
	live    *live
	wake    chan struct{}
	builds  sync.WaitGroup
}

// The causes with which a build's context ends.
var (
	errStopping  = errors.New("the worker stops")
	errTokenLost = errors.New("a renewal was refused: another token is being served")
	errLeaseLost = errors.New("the lease could not be renewed in time")
	errTimeout   = errors.New("builder.timeout passed")
)

// New makes a Runner; it starts nothing.
func New(db DB, b Builder, reg prometheus.Registerer, opts Options) *Runner {
	r := &Runner{
		db: db, builder: b, opts: opts,
		live: newLive(opts.Slots), health: newHealth(), wake: make(chan struct{}, 1),
	}
	r.metrics = newMetrics(reg, r)
	return r
}

// Wake knocks on the dispatcher. It carries nothing and never blocks: the ledger
// says what there is to do.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// BuilderPaused says until when no build is started because the builder itself is
// down or misconfigured, and why; ok is false while it is trusted.
func (r *Runner) BuilderPaused() (until time.Time, why string, ok bool) { return r.health.paused() }

// Run claims and builds until ctx ends, then takes no more, gives running builds
// StopGrace, cancels the rest and hands their claims back. It returns ctx's error
// once every build has ended.
func (r *Runner) Run(ctx context.Context) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	renewing, stopRenewing := context.WithCancel(work)
	var loops errgroup.Group
	loops.Go(func() error { return r.renewLoop(renewing) })
	err := r.dispatch(ctx, work)
	n, _, _ := r.live.ages()
	r.opts.Log.InfoContext(work, "stopping: nothing more is claimed", slog.Int("builds", n), slog.Duration("grace", r.opts.StopGrace))
	r.drain(cancel)
	stopRenewing()
	return errors.Join(err, loops.Wait())
}

// drain waits for the builds, first politely.
func (r *Runner) drain(cancel context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() { r.builds.Wait(); close(done) }()
	grace := time.NewTimer(r.opts.StopGrace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		cancel(errStopping)
		<-done
	}
}

const (
	minIdle    = 10 * time.Millisecond
	errorPause = 100 * time.Millisecond // the first; doubles
)

// dispatch is the claim loop. A pick that filled every slot is followed by the
// next as soon as one is free; one that found less by a pause that doubles up to
// MaxIdle, cut short by a knock, a freed slot or the earliest row that settles.
func (r *Runner) dispatch(ctx, work context.Context) error {
	idle, failing := minIdle, false
	scan := newScanner()
	for ctx.Err() == nil {
		won, wanted, next, err := r.pick(ctx, work, scan)
		switch {
		case err != nil && !failing: // one dead session of many must not cost an idle pause
			idle = errorPause
		case err != nil:
			idle = min(2*idle, 4*r.opts.MaxIdle)
		case won > 0:
			idle = minIdle
		default:
			idle = min(2*idle, r.opts.MaxIdle)
		}
		failing = err != nil
		if won == wanted && wanted > 0 {
			continue
		}
		knocked := r.rest(ctx, min(idle, next))
		scan.timed = knocked || won > 0 || next < r.opts.MaxIdle
	}
	return ctx.Err()
}

// rest waits for whatever comes first, and reports whether that was a knock. The
// jitter keeps a fleet from polling in step.
func (r *Runner) rest(ctx context.Context, d time.Duration) (knocked bool) {
	timer := time.NewTimer(d + rand.N(d/8+1))
	defer timer.Stop()
	select {
	case <-r.wake:
		return true
	case <-r.live.freed:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// pick claims for the free slots and starts what it won. next is when a row is due
// that could not be taken yet.
func (r *Runner) pick(ctx, work context.Context, scan *scanner) (won, wanted int, next time.Duration, err error) {
	next = r.opts.MaxIdle
	free := r.live.free()
	o := ClaimOptions{
		Worker: r.opts.Worker, Builder: r.opts.BuilderName, Lease: r.opts.Lease,
		PerFirm: r.opts.PerFirm, Total: r.opts.Total, Scan: scan.rows(),
	}
	wanted, o.Only = r.allowed(free)
	if wanted == 0 {
		r.opts.Loops.Progress("claim")
		return 0, 0, next, nil
	}
	claimed, due, err := r.claim(ctx, wanted, o, scan)
	if err != nil {
		r.probeSettled(nil, o)
		r.claimFailed(ctx, err)
		return 0, wanted, next, err
	}
	r.opts.Loops.Progress("claim")
	r.metrics.claims.WithLabelValues("won").Add(float64(len(claimed)))
	scan.saw(len(claimed) == wanted)
	for _, c := range claimed {
		r.start(stopped(ctx, work), work, c)
	}
	if due > 0 {
		next = min(next, due)
	}
	return len(claimed), wanted, next, nil
}

// allowed is how many jobs may be claimed now: all free slots, or while the
// builder is paused only the canary, which does not need it, or the one probe.
func (r *Runner) allowed(free int) (n int, only rail.UUID) {
	switch probe, paused := r.health.mayProbe(); {
	case free == 0 || !paused:
		return free, rail.UUID{}
	case probe:
		return 1, rail.UUID{}
	default:
		return 1, rail.Canary().Firm
	}
}

// stopped is work, or its end when the stop came while a claim was on its way: what
// was won in that instant is handed straight back.
func stopped(ctx, work context.Context) context.Context {
	if ctx.Err() == nil {
		return work
	}
	over, cancel := context.WithCancelCause(work)
	cancel(errStopping)
	return over
}

func (r *Runner) start(ctx, work context.Context, c Claimed) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.live.add(c, cancel)
	r.builds.Go(func() {
		defer cancel(nil)
		defer r.live.remove(c.Token.Run)
		r.attempt(ctx, work, c)
	})
}
