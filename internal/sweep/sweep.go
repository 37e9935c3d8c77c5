package sweep

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/runs"
)

// Loops is told about each turn of a loop.
type Loops interface {
	Progress(loop string)
	Failed(loop, class string)
}

// Options of a Sweeper.
type Options struct {
	Every  time.Duration // between two looks for expired leases, jittered
	Batch  int
	Retry  runs.Retry
	Keep   Retention
	Canary time.Duration // one canary fact a fleet in this time, 0 for none
	Wake   func()        // knocks on the dispatcher of this process
	Loops  Loops
	Log    *slog.Logger
}

// Sweeper runs the three loops.
type Sweeper struct {
	db      pg.DB
	opts    Options
	metrics *metrics
	reach   jobs.Horizon // of the looks for expired leases
}

// New makes a Sweeper; it starts nothing.
func New(db pg.DB, reg prometheus.Registerer, o Options) *Sweeper {
	return &Sweeper{db: db, opts: o, metrics: newMetrics(reg)}
}

// Run sweeps until ctx ends, and returns ctx's error.
func (s *Sweeper) Run(ctx context.Context) error {
	walk := &walker{}
	var loops errgroup.Group
	loops.Go(func() error { return s.loop(ctx, "sweep", s.opts.Every, s.expire) })
	loops.Go(func() error {
		return s.loop(ctx, "prune", s.opts.Keep.every(), func(ctx context.Context) error { return s.prune(ctx, walk) })
	})
	if s.opts.Canary > 0 {
		// a quarter of the interval: the row decides whose turn it is, so asking
		// more often only makes the canary punctual
		loops.Go(func() error { return s.loop(ctx, "canary", s.opts.Canary/4, s.askCanary) })
	}
	return loops.Wait()
}

// loop runs step now and then every interval, jittered by a fifth so that a fleet
// does not step together.
func (s *Sweeper) loop(ctx context.Context, name string, every time.Duration, step func(context.Context) error) error {
	timer := time.NewTimer(rand.N(every/5 + 1))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		if err := step(ctx); err == nil {
			s.opts.Loops.Progress(name)
		} else if ctx.Err() == nil {
			s.opts.Loops.Failed(name, pg.Class(err))
			s.opts.Log.ErrorContext(ctx, "sweep failed", slog.String("loop", name),
				slog.String("err", pg.Text(err, 300)), slog.String("sqlstate", pg.SQLState(err)))
		}
		timer.Reset(every - every/10 + rand.N(every/5+1))
	}
}

// expire goes on while batches come back full: a worker that died holding
// hundreds of claims is swept at once.
func (s *Sweeper) expire(ctx context.Context) error {
	for {
		reach, begun := s.reach.Next(ctx, s.db), time.Now()
		gone, err := expire(ctx, s.db, s.opts.Batch, s.opts.Retry, reach)
		if err != nil {
			return err
		}
		s.reach.Looked(reach, time.Since(begun))
		for _, e := range gone {
			s.metrics.reclaimed(e)
			s.opts.Log.WarnContext(ctx, "claim expired", slog.String("firm_id", e.Key.Firm.String()), slog.String("matter_id", e.Key.Matter.String()),
				slog.String("run_id", e.Token.Run.String()), slog.Int64("token", e.Token.Generation), slog.String("outcome", e.Status))
		}
		if len(gone) > 0 {
			s.opts.Wake()
		}
		if len(gone) < s.opts.Batch {
			return nil
		}
	}
}

func (s *Sweeper) askCanary(ctx context.Context) error {
	_, err := outbox.AskCanary(ctx, s.db, s.opts.Canary)
	return err
}
