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
	"briefrail/internal/rail"
)

// Loops is told about each turn of a loop.
type Loops interface {
	Progress(loop string)
	Failed(loop, class string)
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

// Trigger decides facts. Any number may run, in any number of processes; each is
// for one goroutine.
type Trigger struct {
	pool    *pgxpool.Pool
	opts    Options
	metrics *metrics
	// the number behind the facts of a full batch that could not be decided: those
	// behind them come first, they themselves again at the end of the queue
	behind int64
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
// followed by the next at once. A database that is away, or facts that it refuses,
// mean a growing pause, never a spin.
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
		if err != nil || n < t.opts.Batch {
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
	taken, err := t.sweep(ctx, t.behind, t.opts.Batch)
	split := len(taken) > 1 && ofSomeFact(err)
	if split {
		err = t.oneByOne(ctx, taken)
	}
	full := len(taken) == t.opts.Batch
	switch {
	case err != nil && !split: // it says nothing of the facts
	case full && (err != nil || t.behind > 0):
		t.behind = taken[len(taken)-1].Seq + 1
	default:
		t.behind = 0
	}
	if len(taken) > 0 && t.opts.Wake != nil {
		t.opts.Wake()
	}
	return len(taken), err
}

// ofSomeFact reports whether an error may be the fault of one fact of a batch: what
// the database refuses, or a matter whose row somebody holds.
func ofSomeFact(err error) bool {
	state := pg.SQLState(err)
	return err != nil && (!pg.IsTransient(err) || state == lockNotAvailable || state == queryCanceled) && !errors.Is(err, context.Canceled)
}

const (
	lockNotAvailable = "55P03"
	queryCanceled    = "57014" // statement_timeout
	// most is how many facts at fault are named in the log for each batch: where all
	// are, the reason is the same.
	most = 10
)

// oneByOne follows a batch that failed: the facts at fault stay undecided, counted
// and logged by their ids, and so do others of their matters; their neighbours
// proceed.
func (t *Trigger) oneByOne(ctx context.Context, facts []outbox.Fact) error {
	var failed []error
	stuck := map[rail.Key]bool{}
	for _, f := range facts {
		if stuck[f.Key()] || ctx.Err() != nil {
			continue
		}
		if _, err := t.sweep(ctx, f.Seq, 1); err != nil {
			if len(failed) < most {
				t.opts.Log.ErrorContext(ctx, "fact not decided", slog.String("event_id", f.Event.String()), slog.String("err", pg.Text(err, 300)))
			}
			failed, stuck[f.Key()] = append(failed, err), true
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
