package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
)

// How often the write fence is looked after. A closing's deadline is two seconds by
// default; a way of a retired writer that is open is to be heard of within a minute.
const (
	watchdogEvery = 500 * time.Millisecond
	retiredEvery  = 20 * time.Second
	watchesEvery  = time.Minute
)

// WatchFences takes back closings whose deadline has passed, in every daemon; name is
// who is written down as having done so. It uses the way to the database that is never
// behind the work's queue.
func (p Pools) WatchFences(ctx context.Context, name string, log *slog.Logger) error {
	return authority.Watchdog{DB: p.Probes, Daemon: name, Every: watchdogEvery, Log: log}.Run(ctx)
}

// TendFences is all that a worker does for the write fence, until ctx ends: the watchdog,
// the tries of retired ways, told by open, and the watches that hold further crossings.
func (p Pools) TendFences(ctx context.Context, name string, open prometheus.Gauge, log *slog.Logger) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.WatchFences(ctx, name, log) })
	g.Go(func() error {
		return authority.Canary{DB: p.Probes, Every: retiredEvery, Log: log, Open: open}.Run(ctx)
	})
	g.Go(func() error { return p.watchCrossings(ctx, log) })
	return g.Wait()
}

func (p Pools) watchCrossings(ctx context.Context, log *slog.Logger) error {
	turn := time.NewTicker(watchesEvery)
	defer turn.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-turn.C:
		}
		if _, err := authority.WatchAll(ctx, p.Probes, authority.DefaultLimits(), log); err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "fences not watched", slog.String("err", pg.Text(err, 300)))
		}
	}
}
