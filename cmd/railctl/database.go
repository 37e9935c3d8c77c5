package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"briefrail/internal/config"
	"briefrail/internal/pg"
	"briefrail/migrations"
)

// maxLockWait keeps an operator's statement from standing long in a queue for a
// row: those behind it would wait as well.
const maxLockWait = 10 * time.Second

// options are how railctl reaches the database.
func (a *app) options() (pg.Options, error) {
	cfg, err := a.load()
	if err != nil {
		return pg.Options{}, err
	}
	dsn, err := cfg.Database.DSN()
	if err != nil {
		return pg.Options{}, fail(exitUsage, "%w", err)
	}
	o := pg.Options{
		DSN: dsn, ApplicationName: "railctl " + version, MaxConns: 3, ConnectTimeout: cfg.Database.ConnectTimeout,
		AcquireTimeout: cfg.Database.ConnectTimeout, StatementTimeout: cfg.Database.StatementTimeout,
		LockTimeout: min(maxLockWait, cfg.Database.StatementTimeout), Pooler: cfg.Database.StatementCache == 0, StatementCache: cfg.Database.StatementCache,
	}
	if cfg.Database.PasswordFile != "" {
		o.Password = func(context.Context) (string, error) { return cfg.Database.Password() }
	}
	return o, nil
}

// open returns a small pool on a database that answers and whose schema this
// program knows.
func (a *app) open(ctx context.Context) (*pgxpool.Pool, error) {
	o, err := a.options()
	if err != nil {
		return nil, err
	}
	return openPool(ctx, o)
}

// openPool is open with options of one's own.
func openPool(ctx context.Context, o pg.Options) (*pgxpool.Pool, error) {
	pool, err := pg.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("no connection to the database: %w", pooled(pg.ExplainPooler(err)))
	}
	if err := pg.CheckSchema(ctx, pool, migrations.Schema, migrations.MinVersion, migrations.MaxVersion); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// pooled adds what to do about a pooler that stands between.
func pooled(err error) error {
	if errors.Is(err, pg.ErrPooler) {
		return fail(exitUsage, "%w; set database.statement_cache to 0, or for migrations and roles connect to PostgreSQL itself", err)
	}
	return err
}

// connect returns one direct session, for migrations.
func (a *app) connect(ctx context.Context) (*pgx.Conn, error) {
	o, err := a.options()
	if err != nil {
		return nil, err
	}
	conn, err := pg.Connect(ctx, o)
	return conn, pooled(err)
}

// session is what a verb that uses the database works with.
type session struct {
	*app
	cfg  *config.Config
	pool *pgxpool.Pool
}

// withDB makes a verb's body out of one that needs the database.
func (a *app) withDB(body func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		defer a.working(cmd.CommandPath()).end()
		cfg, err := a.load()
		if err != nil {
			return err
		}
		pool, err := a.open(ctx)
		if err != nil {
			return err
		}
		defer pool.Close()
		return body(ctx, &session{app: a, cfg: cfg, pool: pool}, args)
	}
}
