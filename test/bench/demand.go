package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"briefrail/internal/jobs"
	"briefrail/internal/rail"
)

const settle, maxWait = 5 * time.Second, time.Minute

// demand measures demands a second: batches of wants, one a matter, as the trigger
// records them. The batches share no matter, so that what is measured is not how
// long one waits for another.
func (b *bench) demand(ctx context.Context) error {
	for _, size := range []int{100, 500} {
		p, err := b.demandOf(ctx, size)
		if err != nil {
			return err
		}
		b.results.addRates(fmt.Sprintf("demands in batches of %d", size), p, "0.6")
	}
	return b.do(ctx, small, calmSQL, vacuumSQL)
}

func (b *bench) demandOf(ctx context.Context, size int) (pair, error) {
	tenants := make([]rail.UUID, 100)
	for i := range tenants {
		tenants[i] = rail.NewUUID()
	}
	batches := make([][]jobs.Want, 40)
	scripts := make([]string, len(batches))
	define := map[string]string{}
	for i := range batches {
		for range size {
			batches[i] = append(batches[i], jobs.Want{
				Key: rail.Key{Firm: tenants[rand.N(len(tenants))], Matter: rail.NewUUID()}, Count: 1, Priority: rail.Standard, Quiet: settle,
			})
		}
		var t tap
		if _, err := jobs.Demand(ctx, &t, batches[i], maxWait); !errors.Is(err, errTapped) {
			return pair{}, err
		}
		scripts[i] = t.script(nil, define) + ";\n"
	}
	pool, err := b.pool(ctx, small, b.plan.clients)
	if err != nil {
		return pair{}, err
	}
	defer pool.Close()
	for _, batch := range batches { // born before the clock runs
		if _, err := jobs.Demand(ctx, pool, batch, maxWait); err != nil {
			return pair{}, err
		}
	}
	return turns(b.plan.rounds,
		func() (float64, error) {
			n, err := b.clients(ctx, func(ctx context.Context) error {
				_, err := jobs.Demand(ctx, pool, batches[rand.N(len(batches))], maxWait)
				return err
			})
			return n * float64(size), err
		},
		func() (float64, error) {
			n, err := b.pgbench(ctx, small, b.plan.clients, b.plan.turn, define, scripts...)
			return n * float64(size), err
		})
}

// clients calls do over and over from as many goroutines as pgbench has clients,
// for one turn, and returns calls a second.
func (b *bench) clients(ctx context.Context, do func(context.Context) error) (float64, error) {
	var calls atomic.Int64
	begun := time.Now()
	until := begun.Add(b.plan.turn)
	group, ctx := errgroup.WithContext(ctx)
	for range b.plan.clients {
		group.Go(func() error {
			for time.Now().Before(until) {
				if err := do(ctx); err != nil {
					return err
				}
				calls.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return float64(calls.Load()) / time.Since(begun).Seconds(), err
}
