package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/cmd/internal/daemon"
	"briefrail/internal/audit"
	"briefrail/internal/authority"
	"briefrail/internal/authority/api"
	"briefrail/internal/config"
	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
	"briefrail/internal/telemetry"
	"briefrail/internal/telemetry/tracing"
	"briefrail/internal/trigger"
)

// worker is the assembled process: nothing runs yet.
type worker struct {
	name    string
	pools   daemon.Pools
	trigger *trigger.Trigger
	runner  *runs.Runner
	sweeper *sweep.Sweeper
	auditor *audit.Collector
	tracing *tracing.Tracing // nil for no traces
	queue   *queueServices   // nil with source ledger
	api     *api.Server
	loops   *telemetry.Loops
	admin   *telemetry.Server
	open    prometheus.Gauge // retired ways that were found open
}

// assemble makes what the process needs. It asks nothing of the database, which may
// still be away.
func assemble(ctx context.Context, cfg *config.Config, log *slog.Logger) (*worker, error) {
	reg := telemetry.NewRegistry(telemetry.Version(version, string(config.Worker)))
	w := &worker{name: daemon.ProcessName(cfg.Worker.Name, "worker")}
	var err error
	if w.pools, err = daemon.Open(ctx, cfg, version, reg); err != nil {
		return nil, err
	}
	if err := w.equip(ctx, cfg, reg, log); err != nil {
		daemon.FlushTraces(ctx, w.tracing)
		w.pools.Close()
		return nil, err
	}
	return w, nil
}

func (w *worker) equip(ctx context.Context, cfg *config.Config, reg *prometheus.Registry, log *slog.Logger) error {
	var err error
	if w.loops, err = newLoops(cfg, reg); err != nil {
		return err
	}
	if w.tracing, err = daemon.Trace(ctx, cfg, version, w.name, reg, log); err != nil {
		return err
	}
	if err := w.services(cfg, reg, w.loops, log); err != nil {
		return err
	}
	if err := w.addQueue(ctx, cfg, reg); err != nil {
		return err
	}
	if w.api, err = newAPI(cfg, w.pools.Work, w.runner.Wake, reg, log); err != nil {
		return err
	}
	w.open = authority.NewOpenPaths(reg)
	w.auditor = audit.NewCollector(w.pools.Probes, audit.Options{
		Log: log, Check: audit.CheckOptions{ForgottenAfter: 2*cfg.Builder.Timeout + time.Minute},
	})
	reg.MustRegister(w.auditor)
	w.admin, err = telemetry.Listen(ctx, telemetry.ServerOptions{
		Listen: cfg.Admin.Listen, Registry: reg, Loops: w.loops, Ready: append(w.ready(), w.queue.ready()...), Logger: log,
		Username: cfg.Admin.Username, Password: cfg.Admin.PasswordFile.Read,
	})
	return err
}

// newLoops says how long each loop may go without turning before the process
// counts as wedged: generous, as the answer to a wedge is a restart.
func newLoops(cfg *config.Config, reg prometheus.Registerer) (*telemetry.Loops, error) {
	loops := []telemetry.Loop{
		{Name: "claim", Bound: 5 * time.Minute, Every: cfg.Poll.MaxIdle},
		{Name: "reconcile", Bound: 5 * time.Minute, Every: cfg.Poll.MaxIdle},
		{Name: "sweep", Bound: 5*time.Minute + 5*cfg.Sweep.Every, Every: cfg.Sweep.Every},
		{Name: "prune", Bound: time.Hour, Every: sweep.PruneEvery},
	}
	if cfg.Trigger.Source == "sqs" {
		loops = append(loops, telemetry.Loop{Name: "consume", Bound: 5 * time.Minute, Every: cfg.Trigger.PollWait})
	}
	if cfg.Canary.Every > 0 {
		loops = append(loops, telemetry.Loop{Name: "canary", Bound: 5*time.Minute + 5*cfg.Canary.Every, Every: cfg.Canary.Every})
	}
	return telemetry.NewLoops(reg, pg.Classes(), loops...)
}

// services makes the three rooms and hands the dispatcher's knock to the others:
// none of them knows the other two.
func (w *worker) services(cfg *config.Config, reg prometheus.Registerer, loops *telemetry.Loops, log *slog.Logger) error {
	builder, err := newBuilder(cfg, reg)
	if err != nil {
		return err
	}
	retry := runs.Retry{MaxAttempts: cfg.Retry.MaxAttempts, Backoff: cfg.Retry.Backoff, BackoffMax: cfg.Retry.BackoffMax}
	w.runner = runs.New(w.pools.Work, builder, reg, runs.Options{
		Worker: w.name, Slots: cfg.Worker.Slots, Lease: cfg.Lease.Duration, Renew: cfg.Lease.Renew, Retry: retry,
		Quiet: cfg.Settle.Quiet, StopGrace: cfg.Worker.StopGrace, BuildTimeout: cfg.Builder.Timeout, BuilderName: cfg.Builder.Kind,
		MaxFrame: cfg.Builder.MaxFrameBytes, KeepFrames: cfg.Frames.Keep, PerFirm: cfg.Dispatch.PerFirm, Total: cfg.Dispatch.Total,
		MaxIdle: cfg.Poll.MaxIdle, Tracer: w.tracing.Tracer(), Origin: w.origin, Loops: loops, Log: log,
	})
	rules, err := newRules(cfg)
	if err != nil {
		return err
	}
	w.trigger = trigger.New(w.pools.Work, reg, trigger.Options{
		Rules: rules, Grace: cfg.Trigger.Grace, MaxWait: cfg.Settle.MaxWait, MaxIdle: cfg.Poll.MaxIdle, Batch: 500,
		OpenMatterSQL: cfg.Trigger.OpenMatterSQL, Wake: w.runner.Wake, Tracer: w.tracing.Tracer(), Loops: loops, Log: log,
	})
	w.sweeper = sweep.New(w.pools.Work, reg, sweep.Options{
		Every: cfg.Sweep.Every, Batch: cfg.Sweep.Batch, Retry: retry, Canary: cfg.Canary.Every, Wake: w.runner.Wake, Loops: loops, Log: log,
		Keep: sweep.Retention{
			Outbox: cfg.Outbox.Retention, Receipts: cfg.Receipts.Retention, Runs: cfg.Runs.Retention, Frames: cfg.Frames.Keep,
		},
	})
	return nil
}

// origin is what caused a claim, for its trace.
func (w *worker) origin(ctx context.Context, c jobs.Claim) ([]rail.TraceContext, int64, error) {
	return audit.Origin(ctx, w.pools.Work, c)
}

func newRules(cfg *config.Config) (trigger.Rules, error) {
	rules := make([]trigger.Rule, len(cfg.Trigger.Rules))
	for i, r := range cfg.Trigger.Rules {
		rules[i] = trigger.Rule{Name: r.Name, Priority: r.Priority, Quiet: r.Settle}
	}
	return trigger.NewRules(rules, cfg.Trigger.DisabledFirms)
}

func newBuilder(cfg *config.Config, reg prometheus.Registerer) (runs.Builder, error) {
	if cfg.Builder.Kind == "exec" {
		return runs.NewExec(runs.ExecOptions{
			Command: cfg.Builder.Exec.Command, Timeout: cfg.Builder.Timeout, MaxFrameBytes: cfg.Builder.MaxFrameBytes, Registerer: reg,
		})
	}
	o := runs.HTTPOptions{
		URL: cfg.Builder.HTTP.URL, Timeout: cfg.Builder.Timeout, IdleTimeout: cfg.Builder.IdleTimeout,
		MaxFrameBytes: cfg.Builder.MaxFrameBytes, Registerer: reg,
	}
	if cfg.Builder.HTTP.TokenFile != "" {
		o.Token = cfg.Builder.HTTP.TokenFile.Read
	}
	return runs.NewHTTP(o)
}

// ready are the named checks of /readyz.
func (w *worker) ready() []telemetry.Check {
	return append(w.pools.Checks(), daemon.PausedCheck("builder", w.runner.BuilderPaused))
}
