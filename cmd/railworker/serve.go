package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"

	"briefrail/internal/config"
	"briefrail/internal/telemetry"
)

// serve assembles the worker and runs it until ctx ends. A stop that was asked for
// is no error.
func (p program) serve(ctx context.Context, cfg *config.Config) error {
	log, level := telemetry.NewLogger(p.stderr, cfg.Log.Level, cfg.Log.Format, string(config.Worker))
	defer debugOnHangup(ctx, log, level)()
	w, err := assemble(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer w.close()
	err = w.run(ctx, log)
	log.InfoContext(context.WithoutCancel(ctx), "stopped")
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// run serves probes and works. The admin listener is there before the database and
// stays until the builds have ended, so that a start and a drain can be watched.
func (w *worker) run(ctx context.Context, log *slog.Logger) error {
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	var admin errgroup.Group
	admin.Go(func() error { return w.admin.Run(serving) })
	log.InfoContext(ctx, "listening", slog.String("listen", w.admin.Addr()))
	err := w.work(ctx, log)
	stopServing()
	return errors.Join(err, ignoreCanceled(admin.Wait()))
}

// work starts every service; the first that returns stops all.
func (w *worker) work(ctx context.Context, log *slog.Logger) error {
	if err := w.checkSchema(ctx, log); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, w.admin.Drain)
	g.Go(func() error { return w.trigger.Run(ctx) })
	g.Go(func() error { return w.runner.Run(ctx) })
	g.Go(func() error { return w.sweeper.Run(ctx) })
	g.Go(func() error { return w.auditor.Run(ctx) })
	if w.queue != nil {
		g.Go(func() error { return w.queue.consumer.Run(ctx) })
		g.Go(func() error { return w.queue.depths.Run(ctx) })
	}
	w.admin.Started()
	log.InfoContext(ctx, "started", slog.String("worker", w.name), slog.String("version", version), slog.String("listen", w.admin.Addr()))
	return g.Wait()
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// debugOnHangup switches debug logging on and off with SIGHUP; it returns the stop.
func debugOnHangup(ctx context.Context, log *slog.Logger, level *slog.LevelVar) (stop func()) {
	normal := level.Level()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-hangup:
				if level.Level() == slog.LevelDebug {
					level.Set(normal)
				} else {
					level.Set(slog.LevelDebug)
				}
				log.Log(ctx, level.Level(), "log level changed", slog.String("now", level.Level().String()))
			}
		}
	}()
	return func() { signal.Stop(hangup); close(done) }
}

// workerName is the configured name, or host and process.
func workerName(cfg *config.Config) string {
	if cfg.Worker.Name != "" {
		return cfg.Worker.Name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
