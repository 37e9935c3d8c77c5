package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/brief"
	"briefrail/internal/pg"
	"briefrail/internal/telemetry"
	"briefrail/internal/web"
)

// stopGrace is how long builds under way may go on after a signal.
const stopGrace = 10 * time.Second

func serve(ctx context.Context, c *call) error {
	delay, err := c.duration("DELAY")
	if err != nil {
		return err
	}
	flags, dsn := c.newFlags()
	listen := flags.String("listen", c.listen(), "address to serve on (BRIEF_LISTEN)")
	slow := flags.Duration("delay", delay, "make every build take that much longer, as models would (BRIEF_DELAY)")
	if _, err := c.parse(flags); err != nil {
		return err
	}
	o, err := c.database(*dsn)
	if err != nil {
		return err
	}
	if *slow < 0 {
		return fmt.Errorf("%w: --delay must not be negative", errUsage)
	}
	log, _ := telemetry.NewLogger(c.stderr, c.env["LOG_LEVEL"], "json", "brief-builder")
	o.MaxConns = 8
	pool, err := pg.Open(ctx, o)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := fits(ctx, log, pool); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	log.LogAttrs(ctx, slog.LevelInfo, "serving", slog.String("listen", l.Addr().String()), slog.String("version", version), slog.Duration("delay", *slow))
	handler := brief.NewServer(brief.ServerOptions{Pool: pool, Log: log, Delay: *slow, Patience: patience}).Handler()
	return serveUntil(ctx, l, handler)
}

// patience is longer than a restart of PostgreSQL takes as a rule, and shorter than any
// caller waits.
const patience = 20 * time.Second

// schemaTimeout bounds the look at the database at the start.
const schemaTimeout = 10 * time.Second

// fits refuses to serve without the tables of this build: every answer would be an
// error. A database that is away may come back, and /readyz says so meanwhile.
func fits(ctx context.Context, log *slog.Logger, pool *pgxpool.Pool) error {
	looking, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	err := brief.CheckSchema(looking, pool)
	if err != nil && !errors.Is(err, brief.ErrSchema) && ctx.Err() == nil {
		log.LogAttrs(ctx, slog.LevelWarn, "database cannot be looked at; not ready until it answers", slog.String("err", pg.Text(err, 300)))
		return nil
	}
	return err
}

// serveUntil serves until ctx ends, then lets requests under way finish. There is
// no write timeout: a build may take minutes, and its caller keeps the time.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	if err := web.Serve(ctx, srv, l, stopGrace); err != nil { // whose build is cut off tries again
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func healthcheck(ctx context.Context, c *call) error {
	flags, _ := c.newFlags()
	listen := flags.String("listen", c.listen(), "address of the service (BRIEF_LISTEN)")
	if _, err := c.parse(flags); err != nil {
		return err
	}
	url, err := telemetry.ProbeURL(*listen, "/readyz")
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return telemetry.Healthcheck(ctx, url)
}

func showVersion(_ context.Context, c *call) error {
	fmt.Fprintf(c.stdout, "brief-builder %s (%s, %s)\n", version, brief.BuilderVersion, brief.SchemaVersion)
	return nil
}
