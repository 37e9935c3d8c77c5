package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Parked is a fact that a sink will never take as it is, until somebody mends the
// cause and has it replayed.
type Parked struct {
	Event      rail.UUID      `json:"event_id"`
	Firm       rail.UUID      `json:"firm_id"`
	Matter     rail.UUID      `json:"matter_id"`
	Name       rail.EventName `json:"event_name"`
	RecordedAt time.Time      `json:"recorded_at"`
	ParkedAt   time.Time      `json:"parked_at"`
	Attempts   int            `json:"attempts"`
	Code       string         `json:"code"`
	Reason     string         `json:"reason"`
}

const parkedSQL = `
SELECT o.event_id, o.firm_id, o.matter_id, o.event_name, o.recorded_at, f.parked_at, f.attempts, f.last_code, f.parked_reason
  FROM ops.outbox_failures f JOIN ops.domain_event_outbox o ON o.event_id = f.event_id
 WHERE f.parked_at IS NOT NULL ORDER BY f.parked_at DESC, f.event_id LIMIT $1`

// ListParked lists up to limit parked facts, the latest first.
func ListParked(ctx context.Context, db pg.DB, limit int) ([]Parked, error) {
	rows, err := db.Query(ctx, parkedSQL, limit)
	if err != nil {
		return nil, fmt.Errorf("outbox.ListParked: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Parked])
	if err != nil {
		return nil, fmt.Errorf("outbox.ListParked: %w", err)
	}
	return out, nil
}

// CountParked counts parked facts.
func CountParked(ctx context.Context, db pg.DB) (n int64, err error) {
	if err := db.QueryRow(ctx, `SELECT count(*) FROM ops.outbox_failures WHERE parked_at IS NOT NULL`).Scan(&n); err != nil {
		return 0, fmt.Errorf("outbox.CountParked: %w", err)
	}
	return n, nil
}

// Replay has parked facts tried again at once: the given ones, or all where events
// is nil. It returns how many were parked; the audit log tells who and why.
func Replay(ctx context.Context, db pg.DB, events []rail.UUID, actor, reason string) (n int64, err error) {
	if err := db.QueryRow(ctx, `SELECT ops.replay_parked($1, $2, $3)`, events, actor, reason).Scan(&n); err != nil {
		return 0, fmt.Errorf("outbox.Replay: %w", err)
	}
	return n, nil
}

// Remaining is what is not done of the facts recorded up to a point: not published,
// of those parked, and without a receipt.
type Remaining struct {
	Unpublished int64 `json:"unpublished"`
	Parked      int64 `json:"parked"`
	Undecided   int64 `json:"undecided"`
}

// A fact is recorded before it is committed, so everything committed before an
// instant carries an earlier one.
const remainingSQL = `
SELECT count(*), count(f.event_id) FILTER (WHERE f.parked_at IS NOT NULL),
       (SELECT count(*) FROM ops.outbox_undecided WHERE recorded_at <= $1)
  FROM ops.domain_event_outbox o LEFT JOIN ops.outbox_failures f ON f.event_id = o.event_id
 WHERE o.published_at IS NULL AND o.recorded_at <= $1`

// CountRemaining counts what is not done up to until.
func CountRemaining(ctx context.Context, db pg.DB, until time.Time) (r Remaining, err error) {
	if err := db.QueryRow(ctx, remainingSQL, until).Scan(&r.Unpublished, &r.Parked, &r.Undecided); err != nil {
		return Remaining{}, fmt.Errorf("outbox.CountRemaining: %w", err)
	}
	return r, nil
}

// Now is the database's clock, by which facts are recorded.
func Now(ctx context.Context, db pg.DB) (now time.Time, err error) {
	if err := db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return now, fmt.Errorf("outbox.Now: %w", err)
	}
	return now, nil
}
