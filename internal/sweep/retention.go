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
// Every is the time between two rounds, zero for a minute.
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
	pruneBatch = 5000 // some tenth of a second
	walkStep   = 5000 // matters whose frames are counted at once
	// walkIdle is how many steps a round takes that find nothing, so that an idle ledger
	// is not asked all the time: a million matters are through in some forty rounds.
	walkIdle = 5
)

// walker remembers how far the round through the matters has come. It is a hint: a
// restart begins anew.
type walker struct{ after rail.Key }

// prune takes what is due, in rounds. A round that time cut off is followed by the next
// at once: a pause would be a limit to how fast facts may come.
func (s *Sweeper) prune(ctx context.Context, w *walker) error {
	for {
		behind, err := s.round(ctx, w)
		if err != nil || !behind {
			return err
		}
		s.opts.Loops.Progress("prune")
	}
}

// round takes batches of each kind, each a short transaction of its own. No kind takes
// much longer than the time between two rounds: behind a large backlog the others
// still have their turn, and the loop is seen to live. It reports whether anything was
// cut off.
func (s *Sweeper) round(ctx context.Context, w *walker) (behind bool, err error) {
	kinds := []struct {
		what  string
		batch func() (int64, error)
	}{
		{"facts", func() (int64, error) { return outbox.Prune(ctx, s.db, s.opts.Keep.Outbox, pruneBatch) }},
		{"receipts", func() (int64, error) { return pg.Prune(ctx, s.db, "receipts", s.opts.Keep.Receipts, pruneBatch) }},
		{"runs", func() (int64, error) { return runs.Prune(ctx, s.db, s.opts.Keep.Runs, pruneBatch) }},
	}
	for _, k := range kinds {
		full := true
		for begun := time.Now(); full && ctx.Err() == nil; {
			n, err := k.batch()
			if err != nil {
				return false, err
			}
			s.metrics.pruned.WithLabelValues(k.what).Add(float64(n))
			if full = n == pruneBatch; full && time.Since(begun) >= s.opts.Keep.every() {
				behind = true
				break
			}
		}
	}
	more, err := s.pruneFrames(ctx, w, s.opts.Keep.every())
	return (behind || more) && ctx.Err() == nil, err
}

// pruneFrames goes on from where it came to, to the last matter at most: for a whole
// round where it finds what has to go, so that it keeps up with what lands, and for
// walkIdle steps where it finds nothing. It reports whether it found some to the
// end of its time.
func (s *Sweeper) pruneFrames(ctx context.Context, w *walker, round time.Duration) (behind bool, err error) {
	idle := 0
	for begun := time.Now(); ctx.Err() == nil; {
		n, err := s.pruneStep(ctx, w)
		if err != nil || w.after == (rail.Key{}) {
			return false, err
		}
		if n == 0 {
			idle++
		}
		if idle >= walkIdle || time.Since(begun) >= round {
			return n > 0, nil
		}
	}
	return false, nil
}

// pruneStep is of the next walkStep matters; behind the last one stands the first.
func (s *Sweeper) pruneStep(ctx context.Context, w *walker) (int64, error) {
	keys, err := jobs.Walk(ctx, s.db, w.after, walkStep)
	if err != nil {
		return 0, err
	}
	w.after = rail.Key{}
	if len(keys) == walkStep {
		w.after = keys[walkStep-1]
	}
	if len(keys) == 0 {
		return 0, nil
	}
	n, err := runs.PruneFrames(ctx, s.db, keys, s.opts.Keep.Frames)
	s.metrics.pruned.WithLabelValues("frames").Add(float64(n))
	return n, err
}
