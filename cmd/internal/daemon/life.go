package daemon

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

// Logger is the program's, with SIGHUP switching debug logging on and off until stop
// is called.
func (p Program) Logger(ctx context.Context, cfg *config.Config) (log *slog.Logger, stop func()) {
	log, level := telemetry.NewLogger(p.Stderr, cfg.Log.Level, cfg.Log.Format, string(p.Component))
	return log, debugOnHangup(ctx, log, level)
}

// Live serves probes and works until work returns. The admin listener is there
// before the database and stays until the work has ended, so that a start and a
// drain can be watched. A stop that was asked for is no error.
func Live(ctx context.Context, log *slog.Logger, admin *telemetry.Server, work func(context.Context) error) error {
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	var listener errgroup.Group
	listener.Go(func() error { return admin.Run(serving) })
	log.InfoContext(ctx, "listening", slog.String("listen", admin.Addr()))
	err := work(ctx)
	stopServing()
	err = errors.Join(err, ignoreCanceled(listener.Wait()))
	log.InfoContext(context.WithoutCancel(ctx), "stopped")
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
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

// ProcessName is the configured name, or host and process.
func ProcessName(configured, fallback string) string {
	if configured != "" {
		return configured
	}
	host, err := os.Hostname()
	if err != nil {
		host = fallback
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
