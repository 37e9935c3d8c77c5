package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
)

// HoldSnapshot has nothing that dies cleared away until the test ends.
func (d *DB) HoldSnapshot(t testing.TB) {
	t.Helper()
	tx, err := d.NewPool(t, 1).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	if _, err := tx.Exec(t.Context(), `SELECT FROM ops.ledger`); err != nil {
		t.Fatal(err)
	}
}

// errCounted is what the asker of a counted statement gets.
var errCounted = errors.New("explained, and undone")

// Pages is how many pages the one statement touches that do asks for, in tables and in
// indexes. The statement runs and is undone, and do gets an error instead of rows.
func (d *DB) Pages(t testing.TB, do func(pg.DB) error) int {
	t.Helper()
	c := &counting{}
	err := pgx.BeginFunc(t.Context(), d.Pool, func(tx pgx.Tx) error { c.DB = tx; return do(c) })
	if !errors.Is(err, errCounted) {
		t.Fatalf("nothing was counted: %v", err)
	}
	return c.pages
}

// counting is a database that explains what it is asked to run.
type counting struct {
	pg.DB
	pages int
}

// Query implements pg.DB.
func (c *counting) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return nil, c.count(ctx, sql, args)
}

// QueryRow implements pg.DB.
func (c *counting) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return failedRow{c.count(ctx, sql, args)}
}

func (c *counting) count(ctx context.Context, sql string, args []any) error {
	if len(args) == 1 {
		if b, ok := args[0].(pg.Bound); ok { // which has a text of its own
			args = []any{b.Args}
		}
	}
	var out []byte
	if err := c.DB.QueryRow(ctx, `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+sql, args...).Scan(&out); err != nil {
		return err
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(out, &plans); err != nil {
		return err
	}
	c.pages += plans[0].Plan.Hit + plans[0].Plan.Read
	return errCounted
}

type failedRow struct{ err error }

// Scan implements pgx.Row.
func (r failedRow) Scan(...any) error { return r.err }
