package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is what a statement needs. *pgxpool.Pool, *pgx.Conn and pgx.Tx are all one.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Beginner starts transactions: *pgxpool.Pool and *pgx.Conn, but not a pgx.Tx, so
// that a nested transaction cannot be mistaken for a real one.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

const (
	// CommitTimeout is how long a COMMIT may take before its outcome is called
	// unknown.
	CommitTimeout   = 10 * time.Second
	rollbackTimeout = 5 * time.Second
)

// InTx runs fn in one READ COMMITTED transaction and commits it when fn returns
// nil. fn's own error comes back as it is, after a rollback.
//
// The COMMIT does not end when ctx does: a stop in that instant would turn work
// that is done into work nobody can account for. It has CommitTimeout instead.
// When the connection or that deadline goes during COMMIT, the error is
// ErrUnknownOutcome and the caller has to look. A COMMIT that the server answered
// with ROLLBACK is pgx.ErrTxCommitRollback: a plain failure, nothing was written.
func InTx(ctx context.Context, db Beginner, fn func(pgx.Tx) error) error {
	return inTx(ctx, db, CommitTimeout, fn)
}

func inTx(ctx context.Context, db Beginner, limit time.Duration, fn func(pgx.Tx) error) error {
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	ended := false
	defer func() {
		if !ended { // also when fn panics: the session must not keep its locks
			rollback(ctx, tx)
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	ended = true
	return commit(ctx, tx, limit)
}

func commit(ctx context.Context, tx pgx.Tx, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := tx.Commit(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxCommitRollback) || !IsUnknownOutcome(err):
		return fmt.Errorf("commit: %w", err)
	default:
		return fmt.Errorf("commit: %w: %w", ErrUnknownOutcome, err)
	}
}

// rollback has a deadline of its own: the caller's context is usually the reason
// for the rollback. When it fails pgx closes the session, which rolls back too.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx)
}
