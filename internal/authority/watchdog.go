package authority

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"briefrail/internal/pg"
)

// Loops is told about each turn of a loop.
type Loops interface {
	Progress(loop string)
	Failed(loop, class string)
}

// Watchdog takes closings back whose deadline has passed. One runs in every daemon, so
// that a controller which dies right after closing costs its scope no more than the
// deadline and a turn of this loop. Where nothing is closing a turn is one read of a
// table of at most a few rows.
type Watchdog struct {
	DB     pg.DB
	Daemon string // who is written down as having aborted
	Every  time.Duration
	Loops  Loops // may be nil
	Log    *slog.Logger
}

// Run looks at once and then every turn, until ctx ends; it returns ctx's error.
func (w Watchdog) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		w.turn(ctx)
		timer.Reset(w.Every - w.Every/10 + rand.N(w.Every/5+1))
	}
}

func (w Watchdog) turn(ctx context.Context) {
	aborted, err := abortOverdue(ctx, w.DB, w.Daemon)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.ErrorContext(ctx, "closings not watched", slog.String("err", pg.Text(err, 300)), slog.String("sqlstate", pg.SQLState(err)))
			w.tell(func(l Loops) { l.Failed("fence", pg.Class(err)) })
		}
		return
	}
	for _, ch := range aborted {
		w.Log.WarnContext(ctx, "closing taken back", slog.String("scope", ch.Scope), slog.String("change_id", ch.ID.String()),
			slog.Int64("authority_epoch", ch.FromEpoch), slog.Int("blockers", len(ch.Blockers)))
	}
	w.tell(func(l Loops) { l.Progress("fence") })
}

func (w Watchdog) tell(what func(Loops)) {
	if w.Loops != nil {
		what(w.Loops)
	}
}

func abortOverdue(ctx context.Context, db pg.DB, who string) ([]Change, error) {
	return list[Change](ctx, db, "abortOverdue", `SELECT `+changeColumns+` FROM ops.abort_overdue($1)`, who)
}
