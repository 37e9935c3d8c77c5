package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"briefrail/cmd/internal/daemon"
	"briefrail/internal/config"
	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/relay"
	"briefrail/internal/telemetry"
	"briefrail/internal/telemetry/tracing"
)

// program is the assembled process: nothing runs yet.
type program struct {
	pools   daemon.Pools
	relay   *relay.Relay
	sinks   []sink
	loops   *telemetry.Loops
	admin   *telemetry.Server
	tracing *tracing.Tracing // nil for no traces
}

// sink is a sink that can be looked at before it is used.
type sink interface {
	relay.Publisher
	Limits() (entries, bytes int)
	Preflight(ctx context.Context) ([]nudge.Finding, error)
}

// start assembles the relay and runs it until ctx ends.
func start(ctx context.Context, d daemon.Program, cfg *config.Config) error {
	log, stop := d.Logger(ctx, cfg)
	defer stop()
	p, err := assemble(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer p.pools.Close()
	defer daemon.FlushTraces(ctx, p.tracing)
	return daemon.Live(ctx, log, p.admin, func(ctx context.Context) error { return p.work(ctx, cfg, log) })
}

// work starts every service; the first that returns stops all.
func (p *program) work(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	if err := p.pools.AwaitSchema(ctx, p.loops, log); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, p.admin.Drain)
	g.Go(func() error { return p.relay.Run(ctx) })
	g.Go(func() error { return p.pools.WatchFences(ctx, string(config.Relay), log) })
	g.Go(func() error { p.preflight(ctx, log); return nil })
	p.admin.Started()
	log.InfoContext(ctx, "started", slog.String("version", version), slog.Any("sinks", cfg.Relay.Sinks), slog.String("listen", p.admin.Addr()))
	return g.Wait()
}

// preflight says once what is wrong on the way, because a bus that does not exist
// answers success. It decides nothing: what it cannot read may be fine.
func (p *program) preflight(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, s := range p.sinks {
		findings, err := s.Preflight(ctx)
		for _, f := range findings {
			level := slog.LevelInfo
			if f.State == nudge.Warn || f.State == nudge.Fail {
				level = slog.LevelWarn
			}
			log.Log(ctx, level, "preflight", slog.String("check", f.Check), slog.String("outcome", string(f.State)),
				slog.String("resource", f.Resource), slog.String("text", f.Text), slog.String("advice", f.Advice))
		}
		if err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "preflight could not ask", slog.String("err", pg.Text(err, 300)))
		}
	}
}

// assemble makes what the process needs. It asks nothing of the database or the
// sinks, which may still be away.
func assemble(ctx context.Context, cfg *config.Config, log *slog.Logger) (*program, error) {
	reg := telemetry.NewRegistry(telemetry.Version(version, string(config.Relay)))
	p := &program{}
	var err error
	if p.pools, err = daemon.Open(ctx, cfg, version, reg); err != nil {
		return nil, err
	}
	if err := p.equip(ctx, cfg, reg, log); err != nil {
		daemon.FlushTraces(ctx, p.tracing)
		p.pools.Close()
		return nil, err
	}
	return p, nil
}

func (p *program) equip(ctx context.Context, cfg *config.Config, reg *prometheus.Registry, log *slog.Logger) (err error) {
	r := cfg.Relay
	p.loops, err = telemetry.NewLoops(reg, pg.Classes(), telemetry.Loop{Name: "relay", Bound: 5 * time.Minute, Every: r.MaxIdle})
	if err != nil {
		return err
	}
	name := daemon.ProcessName("", "relay")
	if p.tracing, err = daemon.Trace(ctx, cfg, version, name, reg, log); err != nil {
		return err
	}
	o := relay.Options{
		Name: name, Lease: r.Lease, Inflight: r.Inflight, Timeout: r.Timeout, MaxIdle: r.MaxIdle,
		Backoff: outbox.Backoff{First: r.Backoff, Max: r.BackoffMax}, Tracer: p.tracing.Tracer(), Loops: p.loops, Log: log,
	}
	if o.Sinks, err = p.open(ctx, cfg, reg); err != nil {
		return err
	}
	p.relay = relay.New(p.pools.Work, reg, o)
	ready := append(p.pools.Checks(), daemon.PausedCheck("sink", func() (time.Time, string, bool) {
		name, until, why, yes := p.relay.Paused()
		return until, name + ": " + why, yes
	}))
	p.admin, err = telemetry.Listen(ctx, telemetry.ServerOptions{
		Listen: cfg.Admin.Listen, Registry: reg, Loops: p.loops, Ready: ready, Logger: log,
		Username: cfg.Admin.Username, Password: cfg.Admin.PasswordFile.Read,
	})
	return err
}

// open makes the configured sinks.
func (p *program) open(ctx context.Context, cfg *config.Config, reg prometheus.Registerer) (out []relay.Sink, err error) {
	for _, name := range cfg.Relay.Sinks {
		var s sink
		switch name {
		case "none":
			continue
		case "eventbridge":
			s, err = nudge.NewEventBridge(ctx, nudge.EventBridgeOptions{
				Bus: cfg.Relay.EventBus, Source: cfg.Relay.EventSource, Region: cfg.AWS.Region, Endpoint: cfg.AWS.Endpoint,
				Timeout: cfg.Relay.Timeout, Bytes: int(cfg.Relay.BatchBytes), Registerer: reg,
			})
		case "sqs":
			s, err = nudge.NewSQS(ctx, nudge.SQSOptions{
				Queue: cfg.Relay.QueueURL, Region: cfg.AWS.Region, Endpoint: cfg.AWS.Endpoint,
				Timeout: cfg.Relay.Timeout, Bytes: int(cfg.Relay.BatchBytes), Registerer: reg,
			})
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: sink %s: %w", config.ErrInvalid, name, err)
		}
		entries, bytes := s.Limits()
		p.sinks, out = append(p.sinks, s), append(out, relay.Sink{Name: name, Place: placeOf(cfg, name), Publisher: s, Entries: entries, Bytes: bytes})
	}
	return out, nil
}

// placeOf names where a sink sends to: the bus as it is configured, the queue by the
// last part of its URL.
func placeOf(cfg *config.Config, sink string) string {
	if sink == "eventbridge" {
		return cfg.Relay.EventBus
	}
	return path.Base(cfg.Relay.QueueURL)
}
