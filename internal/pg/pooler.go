package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrPooler says that a pooler stands between which mixes sessions, where something
// needs a session of its own: named statements or settings (see Options.Pooler), or
// the lock of a migration.
var ErrPooler = errors.New("a pooler stands between")

// refusedByPooler tells a pooler that takes no settings at start-up from a server that
// is away: waiting would not help.
func refusedByPooler(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "08P01" && strings.Contains(pe.Message, "unsupported startup parameter")
}

// CheckPooler refuses, with ErrPooler, a pool that is not in Pooler mode although a
// transaction-mode pooler stands between. It takes two sessions of the pool. Any other
// error says that it could not look. A pooler that keeps named statements apart itself
// is fine, and one that happened to give both sessions backends of their own is not
// noticed.
func CheckPooler(ctx context.Context, pool *pgxpool.Pool) error {
	cfg := pool.Config()
	if cfg.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement || cfg.MaxConns < 2 {
		return nil
	}
	var conns [2]*pgconn.PgConn
	for i := range conns {
		c, err := pool.Acquire(ctx)
		if err != nil {
			return ExplainPooler(err)
		}
		defer c.Release()
		conns[i] = c.Conn().PgConn()
	}
	for range 3 {
		if err := mixed(ctx, conns); err != nil {
			return ExplainPooler(err)
		}
	}
	return nil
}

// mixed prepares one name on both sessions: on one backend the second is refused, or
// the first does not find it again.
func mixed(ctx context.Context, conns [2]*pgconn.PgConn) error {
	const name = "rail_pooler_check"
	for _, c := range conns {
		if _, err := c.Prepare(ctx, name, "select 1", nil); err != nil {
			return err
		}
	}
	for _, c := range conns {
		if err := c.ExecPrepared(ctx, name, nil, nil, nil).Read().Err; err != nil {
			return err
		}
		if err := c.Deallocate(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// ExplainPooler is err as ErrPooler where it is a pooler's doing: a name that exists
// already, or no longer.
func ExplainPooler(err error) error {
	switch state := SQLState(err); {
	case state == "42P05", state == "26000":
		return fmt.Errorf("%w that gives one session's prepared statements to another: %w", ErrPooler, err)
	case refusedByPooler(err):
		return fmt.Errorf("%w that takes no settings for a session: %w", ErrPooler, err)
	}
	return err
}

// direct refuses a session whose backend is not the one that answered its start.
func direct(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	if err := conn.QueryRow(ctx, "select pg_backend_pid()::bigint", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return fmt.Errorf("look for a pooler: %w", err)
	}
	if pid != conn.PgConn().PID() {
		return fmt.Errorf("%w: migrate over a direct connection to PostgreSQL, as the lock that keeps two migrators apart "+
			"belongs to a session, and behind a pooler nobody knows whose that is", ErrPooler)
	}
	return nil
}
