package sweep

import (
	"context"
	"time"

	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// Retention is how long what is kept. Receipts has to be longer than any nudge can
// live in a queue: a receipt is what tells a returning nudge from an unknown one.
// Every keeps one of these rounds apart; zero
// means a minute.
type Retention struct {
	Outbox   time.Duration
	Receipts time.Duration
	Runs     time.Duration
	Frames   int // a matter
	Every    time.Duration
}

func (r Retention) every() time.Duration {
	if r.Every > 0 {
		return r.Every
	}
	return PruneEvery
}

// PruneEvery is how often retention looks, where Retention does not say.
const PruneEvery = time.Minute

const (
	pruneBatch = 1000
	walkStep   = 1000 // matters a round whose frames are counted
)

// walker remembers how far the round through the matters has come. It is a hint: a
// restart begins anew.
type walker struct{ after rail.Key }

// prune takes what is due, in batches, each a short transaction of its own.
func (s *Sweeper) prune(ctx context.Context, w *walker) error {
	kinds := []struct {
		what  string
		batch func() (int64, error)
	}{
		{"facts", func() (int64, error) { return outbox.Prune(ctx, s.db, s.opts.Keep.Outbox, pruneBatch) }},
		{"receipts", func() (int64, error) { return pg.Prune(ctx, s.db, "receipts", s.opts.Keep.Receipts, pruneBatch) }},
		{"runs", func() (int64, error) { return runs.Prune(ctx, s.db, s.opts.Keep.Runs, pruneBatch) }},
	}
	for _, k := range kinds {
		for n := int64(pruneBatch); n == pruneBatch && ctx.Err() == nil; {
			var err error
			if n, err = k.batch(); err != nil {
				return err
			}
			s.metrics.pruned.WithLabelValues(k.what).Add(float64(n))
		}
	}
	return s.pruneFrames(ctx, w)
}

func (s *Sweeper) pruneFrames(ctx context.Context, w *walker) error {
	keys, err := jobs.Walk(ctx, s.db, w.after, walkStep)
	if err != nil {
		return err
	}
	if len(keys) < walkStep {
		w.after = rail.Key{}
	} else {
		w.after = keys[len(keys)-1]
	}
	if len(keys) == 0 {
		return nil
	}
	n, err := runs.PruneFrames(ctx, s.db, keys, s.opts.Keep.Frames)
	s.metrics.pruned.WithLabelValues("frames").Add(float64(n))
	return err
}
