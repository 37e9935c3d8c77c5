package pg

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	_ DB       = (*pgxpool.Pool)(nil)
	_ DB       = (*pgx.Conn)(nil)
	_ DB       = pgx.Tx(nil)
	_ Beginner = (*pgxpool.Pool)(nil)
	_ Beginner = (*pgx.Conn)(nil)
)

// InTxWithin gives the black-box tests a COMMIT deadline of their choice.
var InTxWithin = inTx

type failingTx struct {
	pgx.Tx
	commit     error
	rolledBack bool
}

func (f *failingTx) BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error) { return f, nil }
func (f *failingTx) Commit(context.Context) error                           { return f.commit }
func (f *failingTx) Rollback(ctx context.Context) error {
	f.rolledBack = ctx.Err() == nil
	return nil
}

func TestPanicRollsBack(t *testing.T) {
	t.Parallel()
	f := &failingTx{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	func() {
		defer func() { _ = recover() }()
		_ = InTx(ctx, f, func(pgx.Tx) error { panic("boom") })
	}()
	if !f.rolledBack {
		t.Error("no rollback, or one with a dead context")
	}
}

func TestPlainCommitFailures(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{pgx.ErrTxCommitRollback, pgx.ErrTxClosed, errors.New("odd")} {
		err := InTx(t.Context(), &failingTx{commit: cause}, func(pgx.Tx) error { return nil })
		if !errors.Is(err, cause) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("%v became %v", cause, err)
		}
	}
}
