package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
)

// ErrNotFound means that no row answers to what was asked for.
var ErrNotFound = errors.New("not found")

// defaultLimit is how many rows a list has where the caller names no limit.
const defaultLimit = 50

func orDefault(limit int) int {
	if limit <= 0 {
		return defaultLimit
	}
	return limit
}

// snapshot runs fn in one read-only transaction, so that all of an answer is of
// one instant. A timeout of zero leaves the session's own. The caller's own
// transaction is used as it is, whatever its isolation.
func snapshot(ctx context.Context, db pg.DB, timeout time.Duration, fn func(pgx.Tx) error) error {
	tx, err := begin(ctx, db, timeout)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() {
		// bounded clean-up: nothing was written, but the session must be given back
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	return fn(tx)
}

// settings go with the statement before them, in one round trip. Just-in-time
// compilation costs more than these queries do, and a plan made without the parameters
// would read what they rule out.
func settings(before string, timeout time.Duration) string {
	if timeout <= 0 {
		return before
	}
	return fmt.Sprintf(`%s; SET LOCAL statement_timeout = %d; SET LOCAL jit = off; SET LOCAL plan_cache_mode = force_custom_plan`, before, max(1, timeout.Milliseconds()))
}

func begin(ctx context.Context, db pg.DB, timeout time.Duration) (pgx.Tx, error) {
	if b, ok := db.(pg.Beginner); ok {
		return b.BeginTx(ctx, pgx.TxOptions{BeginQuery: settings(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`, timeout)})
	}
	tx, err := db.Begin(ctx)
	if err != nil || timeout <= 0 {
		return tx, err
	}
	if _, err := tx.Exec(ctx, settings(`SELECT`, timeout)); err != nil {
		return nil, errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
	}
	return tx, nil
}

// list reads rows whose columns are the fields of T in order.
func list[T any](ctx context.Context, db pg.DB, sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// one reads a single row; ErrNotFound where there is none.
func one[T any](ctx context.Context, db pg.DB, sql string, args ...any) (v T, err error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return v, err
	}
	v, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[T])
	if errors.Is(err, pgx.ErrNoRows) {
		return v, ErrNotFound
	}
	return v, err
}

// widening lists the newest rows of a table whose only order by time is a summary:
// it asks for the last hour, then the last day, then all, until limit rows are
// there. A list that is bounded already is asked for once.
func widening[T any](bounded bool, since time.Time, limit int, read func(since *time.Time) ([]T, error)) ([]T, error) {
	if !bounded {
		for _, back := range []time.Duration{time.Hour, 24 * time.Hour} {
			from := time.Now().Add(-back)
			if rows, err := read(&from); err != nil || len(rows) >= limit {
				return rows, err
			}
		}
	}
	return read(optional(since))
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
