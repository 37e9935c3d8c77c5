package sweep

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// Expired is one claim that was taken from a silent holder.
type Expired struct {
	Key    rail.Key
	Token  rail.Token
	Status string // queued or parked
}

// ExpireSQL is the whole transition, one statement: what landed or was taken over
// between a look and a write cannot be pulled back, because there is no between.
func ExpireSQL() string {
	return jobs.ExpireCTE + runs.AbandonCTE + outbox.AppendFromCTE("told", "failed", "s.run_status = 'parked'", rail.RunTraceSQL("s.run_id")) + `
SELECT firm_id, matter_id, generation, run_id, run_status FROM failed`
}

// Expire fails up to batch claims whose lease has run out.
func Expire(ctx context.Context, db pg.DB, batch int, retry runs.Retry) ([]Expired, error) {
	return expire(ctx, db, batch, retry, jobs.Reach{})
}

func expire(ctx context.Context, db pg.DB, batch int, retry runs.Retry, reach jobs.Reach) ([]Expired, error) {
	rows, err := db.Query(ctx, ExpireSQL(), pgx.NamedArgs{
		"batch": batch, "live_since": reach.LiveSince(), "error": "the lease ran out: the worker is silent, stopped or too slow", "permanent": false,
		"max_attempts": retry.MaxAttempts, "backoff": retry.Backoff, "backoff_max": retry.BackoffMax, "retry_after": "0",
		"fact": string(rail.BriefParked),
	})
	if err != nil {
		return nil, fmt.Errorf("sweep.Expire: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (e Expired, err error) {
		err = r.Scan(&e.Key.Firm, &e.Key.Matter, &e.Token.Generation, &e.Token.Run, &e.Status)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("sweep.Expire: %w", err)
	}
	return out, nil
}
