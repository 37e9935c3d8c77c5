package main

import (
	"context"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"briefrail/cmd/internal/daemon"
	"briefrail/internal/config"
	"briefrail/internal/pg"
)

// start assembles the worker and runs it until ctx ends.
func start(ctx context.Context, p daemon.Program, cfg *config.Config) error {
	log, stop := p.Logger(ctx, cfg)
	defer stop()
	w, err := assemble(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer w.pools.Close()
	defer daemon.FlushTraces(ctx, w.tracing)
	return daemon.Live(ctx, log, w.admin, func(ctx context.Context) error { return w.work(ctx, log) })
}

// work starts every service; the first that returns stops all.
func (w *worker) work(ctx context.Context, log *slog.Logger) error {
	if err := w.pools.AwaitSchema(ctx, w.loops, log); err != nil {
		return err
	}
	if err := w.trigger.Probe(ctx); err != nil && !pg.IsTransient(err) {
		return fmt.Errorf("%w: %s: write a condition over m.firm_id and m.matter_id that this database takes", config.ErrInvalid, pg.Text(err, 300))
	}
	g, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, w.admin.Drain)
	g.Go(func() error { return w.trigger.Run(ctx) })
	g.Go(func() error { return w.runner.Run(ctx) })
	g.Go(func() error { return w.sweeper.Run(ctx) })
	g.Go(func() error { return w.auditor.Run(ctx) })
	g.Go(func() error { return w.pools.TendFences(ctx, w.name, w.open, log) })
	if w.queue != nil {
		g.Go(func() error { return w.queue.consumer.Run(ctx) })
		g.Go(func() error { return w.queue.depths.Run(ctx) })
	}
	g.Go(func() error { return w.api.Run(ctx) })
	w.admin.Started()
	log.InfoContext(ctx, "started", slog.String("worker", w.name), slog.String("version", version), slog.String("listen", w.admin.Addr()))
	return g.Wait()
}
