package pg_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
)

func table(t *testing.T) *pgtest.DB {
	t.Helper()
	d := pgtest.Empty(t)
	if _, err := d.Pool.Exec(t.Context(), "create table rows (id int constraint rows_positive check (id > 0))"); err != nil {
		t.Fatal(err)
	}
	return d
}

func insert(ctx context.Context, id int) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into rows values ($1)", id)
		return err
	}
}

// Field report 4: the answer to COMMIT does not arrive; the row is there all the
// same, so the error must say that nobody knows.
func TestLostCommitAnswerIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	d := table(t)
	u, err := url.Parse(d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	proxy := newStall(t, u.Host)
	u.Host = proxy.addr
	pool := open(t, pg.Options{DSN: u.String(), MaxConns: 1})
	err = pg.InTxWithin(t.Context(), pool, 50*time.Millisecond, func(tx pgx.Tx) error {
		err := insert(t.Context(), 1)(tx)
		proxy.stalled.Store(true)
		return err
	})
	if !errors.Is(err, pg.ErrUnknownOutcome) || !pg.IsUnknownOutcome(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
	eventually(t, func() bool { return value(t, d.Pool, "select count(*)::text from rows") == "1" })
	proxy.stalled.Store(false)
	value(t, pool, "select 'usable'")
}

// Field report 4, mirrored: COMMIT of an aborted transaction is answered with
// ROLLBACK, and that is a plain failure.
func TestIgnoredStatementErrorFailsTheCommit(t *testing.T) {
	t.Parallel()
	d := table(t)
	err := pg.InTx(t.Context(), d.Pool, func(tx pgx.Tx) error {
		_ = insert(t.Context(), -1)(tx)
		return nil
	})
	if !errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pg.ErrUnknownOutcome) {
		t.Errorf("err = %v", err)
	}
}

// Field report 4: a stop in the instant of COMMIT does not undo finished work.
func TestCommitOutlivesTheCallersContext(t *testing.T) {
	t.Parallel()
	d := table(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := pg.InTx(ctx, d.Pool, func(tx pgx.Tx) error {
		defer cancel()
		return insert(ctx, 1)(tx)
	})
	if err != nil || value(t, d.Pool, "select count(*)::text from rows") != "1" {
		t.Errorf("err = %v", err)
	}
}

func TestErrorRollsBackAndComesBackAsItIs(t *testing.T) {
	t.Parallel()
	d := table(t)
	boom := errors.New("boom")
	err := pg.InTx(t.Context(), d.Pool, func(tx pgx.Tx) error {
		return errors.Join(insert(t.Context(), 1)(tx), boom)
	})
	if !errors.Is(err, boom) || value(t, d.Pool, "select count(*)::text from rows") != "0" {
		t.Errorf("err = %v", err)
	}
}

// A server that says goodbye in the middle of COMMIT leaves the outcome open; one
// that does so in the middle of the work does not, as nothing was committed.
func TestSessionCutBeforeCommit(t *testing.T) {
	t.Parallel()
	d := table(t)
	err := pg.InTx(t.Context(), d.NewPool(t, 1), func(tx pgx.Tx) error {
		if err := insert(t.Context(), 1)(tx); err != nil {
			return err
		}
		_, err := d.Pool.Exec(t.Context(), "select pg_terminate_backend($1, 5000)", int32(tx.Conn().PgConn().PID()))
		return err
	})
	if !errors.Is(err, pg.ErrUnknownOutcome) || !pg.IsTransient(err) {
		t.Errorf("err = %v", err)
	}
}

func TestConstraintAndText(t *testing.T) {
	t.Parallel()
	d := table(t)
	err := pg.InTx(t.Context(), d.Pool, insert(t.Context(), -1))
	if pg.Constraint(err) != "rows_positive" || pg.SQLState(err) != "23514" || pg.Class(err) != "23" ||
		pg.IsTransient(err) || pg.IsUnknownOutcome(err) {
		t.Errorf("err = %v", err)
	}
	_, err = d.Pool.Exec(t.Context(), "select 'client secret'::int")
	if got := pg.Text(err, 200); got != "ERROR: invalid input syntax for type integer (SQLSTATE 22P02)" {
		t.Errorf("text = %q", got)
	}
}
