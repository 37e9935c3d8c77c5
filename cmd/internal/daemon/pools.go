package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/config"
	"briefrail/internal/pg"
	"briefrail/internal/telemetry"
	"briefrail/migrations"
)

// Pools are a program's two ways to the database. Probes is for readiness and
// gauges: never behind the work's queue.
type Pools struct {
	Work, Probes *pgxpool.Pool
}

// Open makes both pools. It asks nothing of the database, which may still be away.
func Open(ctx context.Context, cfg *config.Config, version string, reg prometheus.Registerer) (p Pools, err error) {
	dsn, err := cfg.Database.DSN()
	if err != nil {
		return p, err
	}
	name := string(cfg.Component())
	o := pg.Options{
		DSN: dsn, ApplicationName: name + "/" + version, MaxConns: int32(cfg.Database.MaxConns),
		ConnectTimeout: cfg.Database.ConnectTimeout, AcquireTimeout: cfg.Database.ConnectTimeout, StatementTimeout: cfg.Database.StatementTimeout,
		LockTimeout: cfg.Database.StatementTimeout / 2, IdleInTransactionTimeout: 10 * time.Second,
		Pooler: cfg.Database.StatementCache == 0, StatementCache: cfg.Database.StatementCache, Metrics: pg.NewMetrics(reg),
		Password: func(context.Context) (string, error) { return cfg.Database.Password() },
	}
	if p.Work, err = pg.Open(ctx, o); err != nil {
		return p, fmt.Errorf("%w: database.url: %w", config.ErrInvalid, err)
	}
	o.MaxConns, o.StatementTimeout, o.ApplicationName = 2, 5*time.Second, name+"-probe/"+version
	if p.Probes, err = pg.Open(ctx, o); err != nil {
		p.Work.Close()
		return p, err
	}
	reg.MustRegister(pg.NewCollector("work", p.Work), pg.NewCollector("probe", p.Probes))
	return p, nil
}

// checkDSN refuses a connection string that could not be used. One that cannot be
// read here, as its secret is elsewhere, says nothing of the configuration.
func checkDSN(cfg *config.Config) error {
	if dsn, err := cfg.Database.DSN(); err == nil {
		if err := pg.CheckDSN(dsn); err != nil {
			return fmt.Errorf("%w: database.url: %w", config.ErrInvalid, err)
		}
	}
	return nil
}

// Close closes both.
func (p Pools) Close() {
	p.Work.Close()
	p.Probes.Close()
}

func (p Pools) schema(ctx context.Context) error {
	return pg.CheckSchema(ctx, p.Probes, migrations.Schema, migrations.MinVersion, migrations.MaxVersion)
}

// fits is what the database must be like to be worked with. Sessions that a pooler
// mixes are refused here rather than found out by a claim.
func (p Pools) fits(ctx context.Context) error {
	err := pg.CheckPooler(ctx, p.Probes)
	if err == nil {
		err = p.schema(ctx)
	}
	if errors.Is(err, pg.ErrPooler) {
		err = fmt.Errorf("%w: database.statement_cache: must be 0 here: %w", config.ErrInvalid, err)
	}
	return err
}

// AwaitSchema refuses a schema that this build cannot serve; it never migrates. It
// waits for a database that is away, as a platform starts everything at once:
// alive, and saying so, but neither started nor ready.
func (p Pools) AwaitSchema(ctx context.Context, loops *telemetry.Loops, log *slog.Logger) error {
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := p.fits(ctx)
		if err == nil || !pg.IsTransient(err) {
			return err
		}
		for _, l := range telemetry.LoopNames() {
			loops.Failed(l, pg.Class(err)) // it waits; it is not wedged
		}
		log.WarnContext(ctx, "waiting for the database", slog.String("err", pg.Text(err, 200)))
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

// Checks are the database's part of /readyz.
func (p Pools) Checks() []telemetry.Check {
	return []telemetry.Check{
		{Name: "schema", Probe: p.schema},
		{Name: "database-writable", Probe: func(ctx context.Context) error {
			var readOnly bool
			err := p.Probes.QueryRow(ctx, `SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean`).Scan(&readOnly)
			if err == nil && readOnly {
				err = errors.New("the server takes no writes")
			}
			return err
		}},
	}
}

// PausedCheck is the readiness of something that is paused for its configuration:
// paused tells until when and why.
func PausedCheck(name string, paused func() (until time.Time, why string, yes bool)) telemetry.Check {
	return telemetry.Check{Name: name, Probe: func(context.Context) error {
		until, why, yes := paused()
		if !yes {
			return nil
		}
		return fmt.Errorf("paused until %s: %s", until.UTC().Format(time.TimeOnly), why)
	}}
}
