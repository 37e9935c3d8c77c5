package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg"
)

// session holds one session of db, so that what is asked twice is asked of the
// same one; nil where db is a transaction.
func session(ctx context.Context, db pg.DB) (conn *pgx.Conn, release func(), err error) {
	switch db := db.(type) {
	case *pgxpool.Pool:
		c, err := db.Acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		return c.Conn(), c.Release, nil
	case *pgx.Conn:
		return db, func() {}, nil
	default:
		return nil, nil, nil
	}
}

// sessionMode compares the backend that answers with the one that the session was
// told at its start. A session of PostgreSQL itself keeps its backend and knows
// its process id; a pooler hands out an id of its own, and in transaction mode
// another backend as it likes.
func sessionMode(ctx context.Context, conn *pgx.Conn) Diagnosis {
	d := Diagnosis{Check: "pooler", State: OK, Text: "sessions reach PostgreSQL itself"}
	told := conn.PgConn().PID()
	seen := map[uint32]bool{}
	for range 5 {
		var pid uint32
		if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()::bigint`).Scan(&pid); err != nil {
			return Diagnosis{Check: d.Check, State: Unknown, Text: "cannot be looked at: " + pg.Text(err, 200)}
		}
		seen[pid] = true
	}
	switch {
	case len(seen) > 1:
		d.State = Warn
		d.Text = fmt.Sprintf("a transaction-mode pooler stands between: %d backends answered one session", len(seen))
		d.Advice = "run migrations on a direct connection, and set timeouts on the role: such a pooler drops those of the session"
	case !seen[told]:
		d.Text = "a pooler stands between, and kept one backend for five statements: session mode, or an idle transaction-mode pooler"
		d.Advice = "in transaction mode set timeouts on the role and migrate on a direct connection"
	}
	return d
}
