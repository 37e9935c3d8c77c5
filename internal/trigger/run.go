package trigger

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/outbox"
	"briefrail/internal/pg"
)

// Loops is told about each turn of a loop.
type Loops interface {
	Progress(loop string)
	Failed(loop, class string)
}

// Source brings word from outside the ledger that facts may be waiting. It is
// only ever a nudge: the ledger is swept whether or not one comes. Wait returns
// when there may be something to decide, or when ctx ends.
type Source interface {
	Wait(ctx context.Context) error
}

// Options of a Trigger. The zero Grace is right where the ledger is the only
// source.
type Options struct {
	Rules         Rules
	Grace         time.Duration // a fact younger than this is left to its nudge
	MaxWait       time.Duration // bound of settling, from when a job was queued
	MaxIdle       time.Duration // longest pause between two looks at the outbox
	Batch         int           // facts a transaction
	OpenMatterSQL string        // optional predicate over m.firm_id, m.matter_id
	Wake          func()        // knocks on the dispatcher of this process
	Loops         Loops
	Log           *slog.Logger
}

// Trigger decides facts. Any number may run, in any number of processes.
type Trigger struct {
	pool    *pgxpool.Pool
	opts    Options
	metrics *metrics
}

// New makes a Trigger; it starts nothing.
func New(pool *pgxpool.Pool, reg prometheus.Registerer, opts Options) *Trigger {
	return &Trigger{pool: pool, opts: opts, metrics: newMetrics(reg)}
}

// shortest pause after a look that found something; an idle loop doubles it up to
// MaxIdle.
const (
	minIdle    = 10 * time.Millisecond
	errorPause = 100 * time.Millisecond // the first; doubles
)

// Run sweeps the outbox until ctx ends, and returns ctx's error. A full batch is
// followed by the next at once. A database that is away means a growing pause,
// never a spin.
func (t *Trigger) Run(ctx context.Context) error {
	idle, failing := minIdle, false
	for ctx.Err() == nil {
		n, err := t.Once(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			t.opts.Loops.Failed("reconcile", pg.Class(err))
			t.opts.Log.ErrorContext(ctx, "facts not decided", slog.String("err", pg.Text(err, 300)), slog.String("sqlstate", pg.SQLState(err)))
			// one dead session of many must not cost an idle pause
			if !failing {
				idle = errorPause / 2
			}
			idle = min(2*idle, 4*t.opts.MaxIdle)
		case n > 0:
			idle = minIdle
		default:
			idle = min(2*idle, t.opts.MaxIdle)
		}
		failing = err != nil
		if err == nil {
			t.opts.Loops.Progress("reconcile")
		}
		if n < t.opts.Batch {
			sleep(ctx, idle)
		}
	}
	return ctx.Err()
}

// Once decides one batch and returns how many facts it took.
func (t *Trigger) Once(ctx context.Context) (int, error) {
	waiting, err := outbox.Waiting(ctx, t.pool, t.opts.Grace)
	if err != nil || !waiting {
		return 0, err
	}
	taken, err := t.sweep(ctx, 0, t.opts.Batch)
	if err != nil && !pg.IsTransient(err) && len(taken) > 1 {
		err = t.oneByOne(ctx, taken)
	}
	if len(taken) > 0 && t.opts.Wake != nil {
		t.opts.Wake()
	}
	return len(taken), err
}

// oneByOne follows a batch that was refused: the fact at fault stays undecided,
// counted and logged by its id; its neighbours proceed.
func (t *Trigger) oneByOne(ctx context.Context, facts []outbox.Fact) error {
	var failed []error
	for _, f := range facts {
		if _, err := t.sweep(ctx, f.Seq, 1); err != nil {
			t.opts.Log.ErrorContext(ctx, "fact not decided", slog.String("event_id", f.Event.String()), slog.String("err", pg.Text(err, 300)))
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
