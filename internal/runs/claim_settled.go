package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// ClaimSettled is Claim, within the limits where some are set, with its ambiguity
// settled: when the answer is lost, the claim may have been won all the same, and
// the runs that it opened under the ids made here say so. They are built as if
// nothing had happened; unasked they would cost a lease of silence and an attempt.
// A third of the lease is all that the claim itself may take; while nobody answers
// it asks until two thirds are over.
func ClaimSettled(ctx context.Context, db DB, n int, o ClaimOptions, pause func(context.Context, int)) ([]Claimed, error) {
	o.runs = newRuns(n)
	before := time.Now()
	claim := Claim
	if o.PerFirm > 0 || o.Total > 0 {
		claim = func(ctx context.Context, _ pg.DB, n int, o ClaimOptions) ([]Claimed, error) {
			return claimLimited(ctx, db, n, o)
		}
	}
	out, err := within(ctx, o.Lease/3, func(ctx context.Context) ([]Claimed, error) { return claim(ctx, db, n, o) })
	if err == nil || !pg.IsUnknownOutcome(err) {
		return out, err
	}
	for try := 1; time.Since(before) < o.Lease*2/3 && ctx.Err() == nil; try++ {
		opened, asked := within(ctx, 5*time.Second, func(ctx context.Context) ([]Claimed, error) { return opened(ctx, db, o.runs) })
		switch {
		case asked == nil && len(opened) == 0:
			return nil, err
		case asked == nil:
			for i := range opened {
				opened[i].leased = before
			}
			return opened, nil
		}
		pause(ctx, try)
	}
	return nil, err
}

func within(ctx context.Context, d time.Duration, f func(context.Context) ([]Claimed, error)) ([]Claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return f(ctx)
}

const openedSQL = `
SELECT firm_id, matter_id, generation, run_id, attempt, retry_of, demands
  FROM ops.matter_frame_runs WHERE run_id = ANY(@runs::uuid[]) AND outcome = 'running'`

// opened reads which of the runs with these ids were opened and have not ended.
// OwedSince is not known here.
func opened(ctx context.Context, db pg.DB, ids []rail.UUID) ([]Claimed, error) {
	rows, err := db.Query(ctx, openedSQL, pgx.NamedArgs{"runs": ids})
	if err != nil {
		return nil, fmt.Errorf("runs.opened: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c Claimed, err error) {
		err = r.Scan(&c.Key.Firm, &c.Key.Matter, &c.Token.Generation, &c.Token.Run, &c.Attempt, &c.RetryOf, &c.Demands)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("runs.opened: %w", err)
	}
	return out, nil
}
