package trigger

import (
	"context"
	"errors"
	"log/slog"
	"sync"
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
	Tracer        rail.Tracer   // nil for no traces
	Loops         Loops
	Log           *slog.Logger
}

// Trigger decides facts. Any number may run, in any number of processes; each is
// for one goroutine, and those of its Consumer.
type Trigger struct {
	pool    *pgxpool.Pool
	opts    Options
	metrics *metrics
	// the number behind the facts of a full batch that could not be decided: those
	// behind them come first, they themselves again at the end of the queue
	behind int64
	reach  reach
}

// reach is how far this process has decided, and what it costs to read everything.
// Where decided facts cannot be cleared away, because somebody holds an old snapshot,
// that is what lies there: then it takes a twentieth of the time at most, and in
// between only what is behind the last fact decided is looked at. What comes late with
// a lower number is found by the full reading; while that is cheap it is every one.
type reach struct {
	mu    sync.Mutex
	after int64
	full  time.Time     // when everything was read last
	cost  time.Duration // of that
	last  time.Duration // what the one before cost
}

// rest is how many times longer than a reading of everything the pause before the
// next one is.
const rest = 20

// cheap is what a reading of everything may always be believed to cost.
const cheap = 5 * time.Millisecond

// from is the number from which to look now, 0 for everything.
func (r *reach) from() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.full) < rest*r.cost {
		return r.after
	}
	r.last, r.cost = r.cost, 0
	return 0
}

// read adds what a look took that began at a number. A reading is not believed to be
// more than twice as dear as the one before: a server that stalled is no reason to look
// away for long, and what cannot be cleared away grows little by little.
func (r *reach) read(from int64, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from == 0 {
		r.full = time.Now()
		r.cost = min(r.cost+took, max(2*r.last, cheap))
	}
}

// decided notes the number of the last fact of a batch, or of any fact that a nudge
// named. Behind a batch that was cut off by its size more may wait.
func (r *reach) decided(last int64, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cut || last >= r.after {
		r.after = last + 1
	}
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
		n, err := t.once(ctx, t.reach.from())
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
func (t *Trigger) Once(ctx context.Context) (int, error) { return t.once(ctx, 0) }

// once looks from a number on, 0 for everything.
func (t *Trigger) once(ctx context.Context, from int64) (int, error) {
	begun, first := time.Now(), max(t.behind, from)
	waiting, err := outbox.Waiting(ctx, t.pool, t.opts.Grace, from)
	if err != nil {
		return 0, err
	}
	if t.reach.read(first, time.Since(begun)); !waiting {
		return 0, nil
	}
	taken, err := t.sweep(ctx, first, t.opts.Batch)
	split := len(taken) > 1 && ofSomeFact(err)
	if split {
		err = t.oneByOne(ctx, taken)
	}
	cut := len(taken) == t.opts.Batch
	switch {
	case err != nil && !split: // it says nothing of the facts
	case cut && (err != nil || t.behind > 0):
		t.behind = taken[len(taken)-1].Seq + 1
	default:
		t.behind = 0
	}
	if len(taken) > 0 && err == nil {
		t.reach.decided(taken[len(taken)-1].Seq, cut)
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
