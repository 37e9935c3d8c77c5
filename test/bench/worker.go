package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
	"briefrail/internal/trigger"
)

// quietLoops is for loops that nobody watches.
type quietLoops struct{}

// Progress implements the Loops of every room.
func (quietLoops) Progress(string) {}

// Failed implements the Loops of every room.
func (quietLoops) Failed(string, string) {}

func retry() runs.Retry {
	return runs.Retry{MaxAttempts: 6, Backoff: 5 * time.Second, BackoffMax: 10 * time.Minute}
}

// worker is what railworker runs, with its default settings but for settle where
// nothing else is said.
type worker struct {
	pool    *pgxpool.Pool
	builder runs.Builder
	canary  time.Duration   // zero for none
	rules   []trigger.Rule  // none: an uploaded document, without settling
	maxWait time.Duration   // bound of settling; zero: a minute
	keep    sweep.Retention // zero: what is kept by default
	source  trigger.Source  // nil: the ledger is the only one
}

// run works until ctx ends.
func (w worker) run(ctx context.Context) error {
	reg, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	if w.rules == nil {
		w.rules = []trigger.Rule{{Name: "document.uploaded", Priority: rail.Standard}}
	}
	if w.keep.Frames == 0 {
		w.keep = sweep.Retention{Outbox: 7 * 24 * time.Hour, Receipts: 30 * 24 * time.Hour, Runs: 90 * 24 * time.Hour, Frames: 10}
	}
	rules, err := trigger.NewRules(w.rules, nil)
	if err != nil {
		return err
	}
	runner := runs.New(w.pool, w.builder, reg, runs.Options{
		Worker: "bench", Slots: 16, Lease: time.Minute, Renew: true, Retry: retry(), StopGrace: time.Second, BuildTimeout: time.Minute,
		BuilderName: "bench", MaxFrame: 16 << 20, KeepFrames: 10, MaxIdle: time.Second, Loops: quietLoops{}, Log: log,
	})
	grace := time.Duration(0)
	if w.source != nil {
		grace = 30 * time.Second
	}
	t := trigger.New(w.pool, reg, trigger.Options{
		Rules: rules, Grace: grace, MaxWait: cmp.Or(w.maxWait, maxWait), MaxIdle: time.Second, Batch: 500, Wake: runner.Wake, Loops: quietLoops{}, Log: log,
	})
	s := sweep.New(w.pool, reg, sweep.Options{
		Every: time.Second, Batch: 100, Retry: retry(), Canary: w.canary, Wake: runner.Wake, Loops: quietLoops{}, Log: log, Keep: w.keep,
	})
	group, ctx := errgroup.WithContext(ctx)
	loops := []func(context.Context) error{runner.Run, t.Run, s.Run}
	if w.source != nil {
		loops = append(loops, t.NewConsumer(w.source, 2, pollWait).Run)
	}
	for _, loop := range loops {
		group.Go(func() error { return loop(ctx) })
	}
	return group.Wait()
}

// pollWait is no longer than what a stop leaves to the poll under way; a message that
// comes ends the poll in either case.
const pollWait = time.Second

// runFor works for a while.
func (w worker) runFor(ctx context.Context, d time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if err := w.run(limited); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	return nil
}

// instant is a builder that answers at once and notes when it was asked.
type instant struct {
	mu    sync.Mutex
	asked map[rail.UUID]time.Time // by matter
}

// Build implements runs.Builder.
func (b *instant) Build(_ context.Context, r runs.Request) (runs.Frame, runs.Usage, error) {
	b.mu.Lock()
	b.asked[r.Key.Matter] = time.Now()
	b.mu.Unlock()
	return runs.Frame{JSON: []byte(frame), SchemaVersion: "bench/1", BuilderVersion: "bench/1"}, runs.Usage{}, nil
}

const factsPerSecond = 50

// latency measures how long after its commit a fact is claimed, without settling:
// from the producer's answer to the builder's call, with the ledger as the only
// source.
func (b *bench) latency(ctx context.Context) error {
	waits, err := b.waits(ctx, func(ctx context.Context, w worker) error { return w.run(ctx) })
	if err != nil {
		return err
	}
	b.addWaits(fmt.Sprintf("fact committed to claim at %d facts/s, settle 0", factsPerSecond), waits)
	return nil
}

func (b *bench) addWaits(what string, waits []time.Duration) {
	b.results.add(what+", p50", ms(quantile(waits, .5)), "", "", "")
	b.results.add(what+", p99", ms(quantile(waits, .99)), "", "", "")
}

// mostWait is when a fact counts as lost. It is longer than the grace after which a
// worker takes from the outbox what no nudge brought.
const mostWait = 45 * time.Second

// waits has facts produced while a worker runs, and returns how long each of them
// waited.
func (b *bench) waits(ctx context.Context, run func(context.Context, worker) error) ([]time.Duration, error) {
	if err := b.do(ctx, small, calmSQL, `DELETE FROM ops.outbox_undecided`, vacuumSQL); err != nil {
		return nil, err
	}
	pool, err := b.pool(ctx, small, 8)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	builder := &instant{asked: map[rail.UUID]time.Time{}}
	var waits []time.Duration
	err = beside(ctx, func(ctx context.Context) error { return run(ctx, worker{pool: pool, builder: builder}) },
		func(ctx context.Context) error {
			committed, err := b.produce(ctx)
			if err != nil {
				return err
			}
			for matter, at := range committed {
				asked, err := builder.await(ctx, matter)
				if err != nil {
					return err
				}
				waits = append(waits, max(0, asked.Sub(at)))
			}
			return nil
		})
	return waits, err
}

// await returns when the builder was asked for a matter.
func (b *instant) await(ctx context.Context, matter rail.UUID) (time.Time, error) {
	for until := time.Now().Add(mostWait); time.Now().Before(until); {
		b.mu.Lock()
		asked, ok := b.asked[matter]
		b.mu.Unlock()
		if ok {
			return asked, nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return time.Time{}, err
		}
	}
	return time.Time{}, fmt.Errorf("matter %s was never built", matter)
}

// produce inserts facts at random instants, each of a matter of its own, and
// returns when each was committed.
func (b *bench) produce(ctx context.Context) (map[rail.UUID]time.Time, error) {
	conn, err := pg.Connect(ctx, pg.Options{DSN: b.cluster.DSN(small)})
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	committed := map[rail.UUID]time.Time{}
	next := time.Now().Add(500 * time.Millisecond)
	for until := next.Add(b.plan.latency); next.Before(until); {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Until(next)):
		}
		matter := rail.NewUUID()
		_, err := conn.Exec(ctx, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES (md5('firm' || $1::integer)::uuid, $2, 'document.uploaded')`,
			rand.N(firms), matter)
		if err != nil {
			return nil, err
		}
		committed[matter] = time.Now()
		next = next.Add(time.Duration(rand.ExpFloat64() * float64(time.Second) / factsPerSecond))
	}
	return committed, nil
}

// idle counts what an idle worker asks the database, canary included: a long run
// less a short one, so that starting up is left out.
func (b *bench) idle(ctx context.Context) error {
	if err := b.needLarge(ctx); err != nil {
		return err
	}
	var counts [4]int64
	for i, d := range []time.Duration{0, 3 * time.Second, 3 * time.Second, 3*time.Second + b.plan.watch} {
		n, err := b.transactions(ctx, d) // the first canary is built in the first run
		if err != nil {
			return err
		}
		counts[i] = n
	}
	extra := (counts[3] - counts[2]) - (counts[2] - counts[1])
	b.results.add(fmt.Sprintf("queries of an idle worker at %d idle matters", b.plan.idle),
		fmt.Sprintf("%.1f/s", float64(extra)/b.plan.watch.Seconds()), "", "", "at most 5/s")
	return nil
}

// transactions runs a worker for a while and returns the server's own count of
// transactions in the large database, read once the worker's sessions have ended.
func (b *bench) transactions(ctx context.Context, d time.Duration) (n int64, err error) {
	if d > 0 {
		pool, err := b.pool(ctx, large, 8)
		if err != nil {
			return 0, err
		}
		err = worker{pool: pool, builder: &instant{asked: map[rail.UUID]time.Time{}}, canary: time.Minute}.runFor(ctx, d)
		pool.Close()
		if err != nil {
			return 0, err
		}
	}
	err = b.scan(ctx, "postgres", &n, `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1`, large)
	return n, err
}
