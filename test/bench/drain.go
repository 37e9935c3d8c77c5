package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
	"briefrail/internal/relay"
)

// backlog is how many facts wait at the begin of a turn.
const backlog = 60_000

// drain measures a relay that empties a backlog into a sink that takes all at once,
// beside pgbench marking the same rows, a batch a transaction, and sending nothing.
func (b *bench) drain(ctx context.Context) error {
	p, err := turns(b.plan.rounds,
		func() (float64, error) { return b.facts(ctx, b.relayed) },
		func() (float64, error) { return b.facts(ctx, b.markedByHand) })
	if err != nil {
		return err
	}
	b.results.addRates("relay to a sink that takes all, facts", p, "")
	return nil
}

const pendingSQL = `SELECT count(*) FROM ops.domain_event_outbox WHERE published_at IS NULL`

// facts fills the outbox, lets a side work, and returns the facts marked a second.
func (b *bench) facts(ctx context.Context, side func(context.Context) error) (float64, error) {
	err := b.do(ctx, small, `TRUNCATE ops.domain_event_outbox, ops.outbox_failures`, fmt.Sprintf(`
INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
SELECT md5('firm' || i %% %d)::uuid, md5('matter' || i)::uuid, 'document.uploaded' FROM generate_series(1, %d) i`, firms, backlog),
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
	return (backlog - left) / took.Seconds(), nil
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

// relayed runs a relay with its default settings until nothing is left.
func (b *bench) relayed(ctx context.Context) error {
	pool, err := b.pool(ctx, small, b.plan.clients)
	if err != nil {
		return err
	}
	defer pool.Close()
	r := relay.New(pool, prometheus.NewRegistry(), relay.Options{
		Name: "bench", Sinks: []relay.Sink{{Name: "eventbridge", Publisher: takesAll{}, Entries: nudge.MaxEntries, Bytes: nudge.MaxBytes}},
		Lease: 10 * time.Second, Inflight: 4, Timeout: 10 * time.Second, MaxIdle: time.Second,
		Backoff: outbox.Backoff{First: time.Second, Max: 5 * time.Minute}, Loops: quietLoops{}, Log: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for left := backlog; left > 0; {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			if err := pool.QueryRow(ctx, pendingSQL).Scan(&left); err != nil {
				return err
			}
		}
	}
	stop()
	<-ended //nolint:errcheck // it ends with the error of the context that was just ended
	return nil
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
