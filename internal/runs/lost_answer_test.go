package runs_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg/pgtest"
	"briefrail/internal/runs"
)

// lossy is a database whose answers to a landing get lost: after the work, or before
// it was sent.
type lossy struct {
	*pgxpool.Pool
	unsent  bool
	losses  atomic.Int64 // landings still to be lost
	deaf    atomic.Int64 // questions about a run still to be lost
	landed  func()       // runs once, between a landing and the loss of its answer
	already atomic.Bool
}

func (l *lossy) between() {
	if l.landed != nil && l.already.CompareAndSwap(false, true) {
		l.landed()
	}
}

func (l *lossy) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	switch {
	case sql == runs.LandSQL() && l.losses.Add(-1) >= 0:
		if l.unsent {
			return lostRow{}
		}
		return lostRow{l.Pool.QueryRow(ctx, sql, args...), l.between}
	case strings.HasPrefix(sql, "SELECT outcome FROM") && l.deaf.Add(-1) >= 0:
		return lostRow{}
	}
	return l.Pool.QueryRow(ctx, sql, args...)
}

// lostRow is the answer that never came.
type lostRow struct {
	row   pgx.Row
	after func()
}

func (r lostRow) Scan(into ...any) error {
	if r.row == nil {
		return io.ErrUnexpectedEOF
	}
	if err := r.row.Scan(into...); err != nil {
		return err
	}
	r.after()
	return io.ErrUnexpectedEOF
}

func (l *lossy) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	tx, err := l.Pool.BeginTx(ctx, o)
	return lossyTx{tx, l}, err
}

type lossyTx struct {
	pgx.Tx
	l *lossy
}

func (tx lossyTx) Commit(ctx context.Context) error {
	if tx.l.losses.Add(-1) < 0 {
		return tx.Tx.Commit(ctx)
	}
	if tx.l.unsent {
		_ = tx.Rollback(ctx)
		return io.ErrUnexpectedEOF
	}
	if err := tx.Tx.Commit(ctx); err != nil {
		return err
	}
	tx.l.between()
	return io.ErrUnexpectedEOF
}

// Point five: after the commit, before anybody knows of it.
func TestZombieWhoseLandingWasNotAnswered(t *testing.T) {
	both(t, func(t *testing.T, pad int) {
		l := &lossy{}
		l.losses.Store(1)
		z := haunt(t, func(p *pgxpool.Pool) runs.DB { l.Pool = p; return l }, true, pad)
		l.landed = func() { // the world goes on before the zombie asks
			asked(t, z.db.Pool, z.key, 1)
			c, _ := took(t, z.db.Pool, z.key)
			if _, err := runs.Land(t.Context(), z.db.Pool, landing(t, c.Claim, `{"by":"fresh"}`)); err != nil {
				t.Errorf("the next holder: %v", err)
			}
		}
		z.resume()
		z.wants("zombie fresh", "landed")
		if n := z.builds.Load(); n != 1 {
			t.Errorf("built %d times", n)
		}
		if n := one[int](t, z.db, `SELECT count(*) FROM ops.domain_event_outbox WHERE event_name = 'brief.landed'`); n != 2 {
			t.Errorf("%d facts of two landings", n)
		}
	})
}

// Nor is the question answered: it is asked until it is, and nothing is built again.
func TestNeitherLandingNorQuestionIsAnswered(t *testing.T) {
	both(t, func(t *testing.T, pad int) {
		l := &lossy{}
		l.losses.Store(1)
		l.deaf.Store(2)
		z := haunt(t, func(p *pgxpool.Pool) runs.DB { l.Pool = p; return l }, true, pad)
		z.resume()
		z.wants("zombie", "landed")
		if n := z.builds.Load(); n != 1 || status(t, z.db, z.key) != "idle" {
			t.Errorf("built %d times, row %s", n, status(t, z.db, z.key))
		}
	})
}

// The holder itself learns that it landed, that its answer was lost, and nothing
// about being fenced.
func TestLostAnswerIsAskedForAndCalledAmbiguous(t *testing.T) {
	both(t, func(t *testing.T, pad int) {
		db := pgtest.New(t)
		k := newKey()
		demand(t, db, k, 1)
		c := mustClaim(t, db)
		l := &lossy{Pool: db.Pool}
		l.losses.Store(1)
		tries := 0
		out, err := runs.LandSettled(t.Context(), l, landing(t, c.Claim, `{"pad":"`+strings.Repeat("x", pad)+`"}`), func(context.Context, int) { tries++ })
		if err != nil || !out.Ambiguous || tries != 0 {
			t.Errorf("landed %+v, %v, after %d pauses", out, err, tries)
		}
		db.CheckLedger(t)
	})
}

// A landing that never arrived is tried again, not built again.
func TestLandingThatWasNeverSentIsTriedAgain(t *testing.T) {
	both(t, func(t *testing.T, pad int) {
		l := &lossy{unsent: true}
		l.losses.Store(2)
		z := haunt(t, func(p *pgxpool.Pool) runs.DB { l.Pool = p; return l }, true, pad)
		z.resume()
		z.wants("zombie", "landed")
		if n := z.builds.Load(); n != 1 {
			t.Errorf("built %d times", n)
		}
	})
}

// It was never sent, and meanwhile another took over: fenced, and the frame is gone.
func TestLandingThatWasNeverSentAndIsStale(t *testing.T) {
	both(t, func(t *testing.T, pad int) {
		l := &lossy{unsent: true}
		l.losses.Store(1)
		z := haunt(t, func(p *pgxpool.Pool) runs.DB { l.Pool = p; return l }, true, pad)
		z.landFresh(z.takeOver(false))
		z.resume()
		z.wants("fresh", "expired, late")
	})
}

var _ runs.DB = (*lossy)(nil)
