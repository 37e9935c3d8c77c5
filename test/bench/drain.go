package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/relay"
)

// How many facts wait at the begin of a turn.
const (
	backlog    = 60_000
	busBacklog = 15_000
)

// drain measures a relay that empties a backlog into a sink that takes all at once,
// beside pgbench marking the same rows, a batch a transaction, and sending nothing;
// and one that sends it over a fake bus, real client and all.
func (b *bench) drain(ctx context.Context) error {
	rates, err := takeTurns(b.plan.rounds,
		func() (float64, error) {
			return b.facts(ctx, backlog, func(ctx context.Context) error { return b.relayed(ctx, takesAll{}) })
		},
		func() (float64, error) { return b.facts(ctx, backlog, b.markedByHand) },
		func() (float64, error) { return b.facts(ctx, busBacklog, b.relayedToBus) })
	if err != nil {
		return err
	}
	b.results.addRates("relay to a sink that takes all, facts", newPair(rates[0], rates[1]), "")
	bus := newPair(rates[2], rates[0])
	b.results.add("relay over a fake bus to its queue, facts", rate(quantile(bus.rail, .5)), "", fmt.Sprintf("%.2f of the line above", quantile(bus.ratios, .5)), "")
	return nil
}

const pendingSQL = `SELECT count(*) FROM ops.domain_event_outbox WHERE published_at IS NULL`

// facts fills the outbox, lets a side work, and returns the facts marked a second.
func (b *bench) facts(ctx context.Context, n int, side func(context.Context) error) (float64, error) {
	err := b.do(ctx, small, `TRUNCATE ops.domain_event_outbox, ops.outbox_failures`, fmt.Sprintf(`
INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
SELECT md5('firm' || i %% %d)::uuid, md5('matter' || i)::uuid, 'document.uploaded' FROM generate_series(1, %d) i`, firms, n),
		`VACUUM (ANALYZE) ops.domain_event_outbox`, `CHECKPOINT`)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := side(ctx); err != nil {
		return 0, err
	}
	took := time.Since(start)
	var left float64
	if err := b.scan(ctx, small, &left, pendingSQL); err != nil {
		return 0, err
	}
	return (float64(n) - left) / took.Seconds(), nil
}

// takesAll is a sink without a network.
type takesAll struct{}

// Publish implements relay.Publisher.
func (takesAll) Publish(_ context.Context, nudges []nudge.Nudge) ([]nudge.Result, error) {
	results := make([]nudge.Result, len(nudges))
	for i := range results {
		results[i].Verdict = nudge.Sent
	}
	return results, nil
}

// newRelay makes a relay with its default settings and one sink.
func newRelay(db pg.DB, p relay.Publisher) *relay.Relay {
	return relay.New(db, prometheus.NewRegistry(), relay.Options{
		Name: "bench", Sinks: []relay.Sink{{Name: "eventbridge", Publisher: p, Entries: nudge.MaxEntries, Bytes: nudge.MaxBytes}},
		Lease: 10 * time.Second, Inflight: 4, Timeout: 10 * time.Second, MaxIdle: time.Second,
		Backoff: outbox.Backoff{First: time.Second, Max: 5 * time.Minute}, Loops: quietLoops{}, Log: slog.New(slog.DiscardHandler),
	})
}

// relayed runs a relay until nothing is left.
func (b *bench) relayed(ctx context.Context, p relay.Publisher) error {
	pool, err := b.pool(ctx, small, b.plan.clients)
	if err != nil {
		return err
	}
	defer pool.Close()
	return beside(ctx, newRelay(pool, p).Run, func(ctx context.Context) error {
		for left := 1; left > 0; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
			if err := pool.QueryRow(ctx, pendingSQL).Scan(&left); err != nil {
				return err
			}
		}
		return nil
	})
}

// beside does something while a service runs, and then stops it. A service that
// ends by itself ends it all.
func beside(ctx context.Context, service, do func(context.Context) error) error {
	running, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop(service(running)) // keeps the first cause: being stopped is none
	}()
	err := do(running)
	if early := context.Cause(running); early != nil {
		err = early
	}
	stop(context.Canceled)
	<-ended
	return err
}

// A batch of one bucket, as a relay's, without its look at the lease.
const markScript = `\set b random(0, 63)
UPDATE ops.domain_event_outbox SET published_at = clock_timestamp() WHERE event_id IN (
  SELECT event_id FROM ops.domain_event_outbox WHERE bucket = :b AND published_at IS NULL ORDER BY seq LIMIT 100 FOR UPDATE SKIP LOCKED);
`

func (b *bench) markedByHand(ctx context.Context) error {
	_, err := b.pgbench(ctx, small, b.plan.clients, time.Second, nil, markScript)
	return err
}
