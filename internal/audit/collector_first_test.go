package audit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
)

// absent is a database that refuses every transaction and counts them.
type absent struct {
	pg.DB
	asked *atomic.Int64
}

func (a absent) Begin(context.Context) (pgx.Tx, error) {
	a.asked.Add(1)
	return nil, errors.New("away")
}

func (a absent) QueryRow(context.Context, string, ...any) pgx.Row { return nobody{} }

type nobody struct{}

func (nobody) Scan(...any) error { return errors.New("away") }

// TestTheFirstWholeCheckComesWithinAMinute: some invariants have no gauge before it.
func TestTheFirstWholeCheckComesWithinAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		c := NewCollector(absent{asked: &asked}, Options{CheckEvery: time.Minute})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		<-time.After(29 * time.Second)
		one := asked.Load()
		<-time.After(32 * time.Second)
		if n := asked.Load(); one == 0 || n <= 2*one {
			t.Errorf("one check asks %d times; after a minute %d, want more than two turns: the whole check is among them", one, n)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
