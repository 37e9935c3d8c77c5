package authority

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"briefrail/internal/pg"
)

// Watchdog takes closings back whose deadline has passed. One runs in every daemon, so
// that a controller which dies right after closing costs its scope no more than the
// deadline and a turn of this loop. Where there is no fence at all it looks ever so
// rarely: the first one is configured long before anything closes.
type Watchdog struct {
	DB     pg.DB
	Daemon string // who is written down as having aborted
	Every  time.Duration
	Log    *slog.Logger
}

// rarely is how many times longer a turn takes without any fence.
const rarely = 20

// Run looks at once and then every turn, until ctx ends; it returns ctx's error.
func (w Watchdog) Run(ctx context.Context) error {
	return turns(ctx, func() time.Duration {
		if !w.turn(ctx) {
			return w.Every * rarely
		}
		return w.Every
	})
}

// turns takes a turn at once and then one after about as long as the last one said,
// jittered by a fifth so that a fleet does not step together, until ctx ends; it returns
// ctx's error.
func turns(ctx context.Context, turn func() time.Duration) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		every := turn()
		timer.Reset(every - every/10 + rand.N(every/5+1))
	}
}

// turn tells whether there is any fence.
func (w Watchdog) turn(ctx context.Context) (fenced bool) {
	fenced, aborted, err := w.look(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.ErrorContext(ctx, "closings not watched", slog.String("err", pg.Text(err, 300)), slog.String("sqlstate", pg.SQLState(err)))
		}
		return true
	}
	for _, ch := range aborted {
		w.Log.WarnContext(ctx, "closing taken back", slog.String("scope", ch.Scope), slog.String("change_id", ch.ID.String()),
			slog.Int64("authority_epoch", ch.FromEpoch), slog.Int("blockers", len(ch.Blockers)))
	}
	return fenced
}

const overdueSQL = `
SELECT count(*) > 0, coalesce(bool_or(state <> 'open' AND closing_deadline <= clock_timestamp()), false) FROM ops.write_fences`

func (w Watchdog) look(ctx context.Context) (fenced bool, aborted []Change, err error) {
	var overdue bool
	if err := w.DB.QueryRow(ctx, overdueSQL).Scan(&fenced, &overdue); err != nil {
		return true, nil, wrap("Watchdog", err)
	}
	if overdue {
		aborted, err = abortOverdue(ctx, w.DB, w.Daemon)
	}
	return fenced, aborted, err
}

func abortOverdue(ctx context.Context, db pg.DB, who string) ([]Change, error) {
	return list[Change](ctx, db, "abortOverdue", `SELECT `+changeColumns+` FROM ops.abort_overdue($1)`, who)
}
