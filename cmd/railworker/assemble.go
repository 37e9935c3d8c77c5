package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/audit"
	"briefrail/internal/config"
	"briefrail/internal/pg"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
	"briefrail/internal/telemetry"
	"briefrail/internal/trigger"
	"briefrail/migrations"
)

// worker is the assembled process: nothing runs yet.
type worker struct {
	name    string
	pool    *pgxpool.Pool // work
	probes  *pgxpool.Pool // readiness and gauges: never behind the work's queue
	trigger *trigger.Trigger
	runner  *runs.Runner
	sweeper *sweep.Sweeper
	auditor *audit.Collector
	queue   *queueServices // nil with source ledger
	loops   *telemetry.Loops
	admin   *telemetry.Server
}

func (w *worker) close() {
	w.pool.Close()
	w.probes.Close()
}

// assemble makes what the process needs. It asks nothing of the database, which may
// still be away.
func assemble(ctx context.Context, cfg *config.Config, log *slog.Logger) (*worker, error) {
	reg := telemetry.NewRegistry(telemetry.Version(version, string(config.Worker)))
	w := &worker{name: workerName(cfg)}
	if err := w.open(ctx, cfg, reg); err != nil {
		return nil, err
	}
	if err := w.equip(ctx, cfg, reg, log); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *worker) equip(ctx context.Context, cfg *config.Config, reg *prometheus.Registry, log *slog.Logger) error {
	var err error
	if w.loops, err = newLoops(cfg, reg); err != nil {
		return err
	}
	if err := w.services(cfg, reg, w.loops, log); err != nil {
		return err
	}
	if err := w.addQueue(ctx, cfg, reg); err != nil {
		return err
	}
	w.auditor = audit.NewCollector(w.probes, audit.Options{
		Log: log, Check: audit.CheckOptions{ForgottenAfter: 2*cfg.Builder.Timeout + time.Minute},
	})
	reg.MustRegister(w.auditor)
	w.admin, err = telemetry.Listen(ctx, telemetry.ServerOptions{
		Listen: cfg.Admin.Listen, Registry: reg, Loops: w.loops, Ready: append(w.ready(), w.queue.ready()...), Logger: log,
		Username: cfg.Admin.Username, Password: cfg.Admin.PasswordFile.Read,
	})
	return err
}

func (w *worker) open(ctx context.Context, cfg *config.Config, reg prometheus.Registerer) error {
	dsn, err := cfg.Database.DSN()
	if err != nil {
		return err
	}
	metrics := pg.NewMetrics(reg)
	o := pg.Options{
		DSN: dsn, ApplicationName: "railworker/" + version, MaxConns: int32(cfg.Database.MaxConns),
		ConnectTimeout: cfg.Database.ConnectTimeout, AcquireTimeout: cfg.Database.ConnectTimeout, StatementTimeout: cfg.Database.StatementTimeout,
		LockTimeout: cfg.Database.StatementTimeout / 2, IdleInTransactionTimeout: 10 * time.Second,
		Pooler: cfg.Database.StatementCache == 0, Metrics: metrics,
		Password: func(context.Context) (string, error) { return cfg.Database.Password() },
	}
	if w.pool, err = pg.Open(ctx, o); err != nil {
		return fmt.Errorf("%w: database.url: %w", config.ErrInvalid, err)
	}
	o.MaxConns, o.StatementTimeout, o.ApplicationName = 2, 5*time.Second, "railworker-probe/"+version
	if w.probes, err = pg.Open(ctx, o); err != nil {
		w.pool.Close()
		return err
	}
	reg.MustRegister(pg.NewCollector("work", w.pool), pg.NewCollector("probe", w.probes))
	return nil
}

// checkSchema refuses a schema that this build cannot serve; it never migrates. It
// waits for a database that is away, as a platform starts everything at once:
// alive, and saying so, but neither started nor ready.
func (w *worker) checkSchema(ctx context.Context, log *slog.Logger) error {
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := pg.CheckSchema(ctx, w.probes, migrations.Schema, migrations.MinVersion, migrations.MaxVersion)
		if err == nil || !pg.IsTransient(err) {
			return err
		}
		for _, l := range telemetry.LoopNames() {
			w.loops.Failed(l, pg.Class(err)) // it waits; it is not wedged
		}
		log.WarnContext(ctx, "waiting for the database", slog.String("err", pg.Text(err, 200)))
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

// newLoops says how long each loop may go without turning before the process
// counts as wedged: generous, as the answer to a wedge is a restart.
func newLoops(cfg *config.Config, reg prometheus.Registerer) (*telemetry.Loops, error) {
	loops := []telemetry.Loop{
		{Name: "claim", Bound: 5 * time.Minute},
		{Name: "reconcile", Bound: 5 * time.Minute},
		{Name: "sweep", Bound: 5*time.Minute + 5*cfg.Sweep.Every},
		{Name: "prune", Bound: time.Hour},
	}
	if cfg.Trigger.Source == "sqs" {
		loops = append(loops, telemetry.Loop{Name: "consume", Bound: 5 * time.Minute})
	}
	if cfg.Canary.Every > 0 {
		loops = append(loops, telemetry.Loop{Name: "canary", Bound: 5*time.Minute + 5*cfg.Canary.Every})
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
	w.runner = runs.New(w.pool, builder, reg, runs.Options{
		Worker: w.name, Slots: cfg.Worker.Slots, Lease: cfg.Lease.Duration, Renew: cfg.Lease.Renew, Retry: retry,
		Quiet: cfg.Settle.Quiet, StopGrace: cfg.Worker.StopGrace, BuildTimeout: cfg.Builder.Timeout, BuilderName: cfg.Builder.Kind,
		MaxFrame: cfg.Builder.MaxFrameBytes, KeepFrames: cfg.Frames.Keep, PerFirm: cfg.Dispatch.PerFirm, Total: cfg.Dispatch.Total,
		MaxIdle: cfg.Poll.MaxIdle, Loops: loops, Log: log,
	})
	rules, err := newRules(cfg)
	if err != nil {
		return err
	}
	w.trigger = trigger.New(w.pool, reg, trigger.Options{
		Rules: rules, Grace: cfg.Trigger.Grace, MaxWait: cfg.Settle.MaxWait, MaxIdle: cfg.Poll.MaxIdle, Batch: 500,
		OpenMatterSQL: cfg.Trigger.OpenMatterSQL, Wake: w.runner.Wake, Loops: loops, Log: log,
	})
	w.sweeper = sweep.New(w.pool, reg, sweep.Options{
		Every: cfg.Sweep.Every, Batch: cfg.Sweep.Batch, Retry: retry, Canary: cfg.Canary.Every, Wake: w.runner.Wake, Loops: loops, Log: log,
		Keep: sweep.Retention{
			Outbox: cfg.Outbox.Retention, Receipts: cfg.Receipts.Retention, Runs: cfg.Runs.Retention, Frames: cfg.Frames.Keep,
		},
	})
	return nil
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

// ready are the named checks of /readyz; the database is asked on the probes' own
// pool.
func (w *worker) ready() []telemetry.Check {
	return []telemetry.Check{
		{Name: "schema", Probe: func(ctx context.Context) error {
			return pg.CheckSchema(ctx, w.probes, migrations.Schema, migrations.MinVersion, migrations.MaxVersion)
		}},
		{Name: "database-writable", Probe: func(ctx context.Context) error {
			var readOnly bool
			err := w.probes.QueryRow(ctx, `SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean`).Scan(&readOnly)
			if err == nil && readOnly {
				err = errors.New("the server takes no writes")
			}
			return err
		}},
		{Name: "builder", Probe: func(context.Context) error {
			until, why, paused := w.runner.BuilderPaused()
			if !paused {
				return nil
			}
			return fmt.Errorf("paused until %s: %s", until.UTC().Format(time.TimeOnly), why)
		}},
	}
}
