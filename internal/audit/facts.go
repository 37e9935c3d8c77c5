package audit

import (
	"context"
	"fmt"
	"time"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// FactRow is a fact with what the trigger made of it.
type FactRow struct {
	Seq         int64      `json:"seq"`
	Event       rail.UUID  `json:"event_id"`
	Firm        rail.UUID  `json:"firm_id"`
	Matter      rail.UUID  `json:"matter_id,omitzero"` // the nil UUID for a fact of the firm
	Name        string     `json:"event_name"`
	OccurredAt  time.Time  `json:"occurred_at"`
	RecordedAt  time.Time  `json:"recorded_at"`
	TraceParent string     `json:"traceparent,omitempty"`
	PublishedAt *time.Time `json:"published_at,omitempty"`
	Verdict     string     `json:"verdict,omitempty"` // demanded, ignored, gated:…; empty without a receipt
	DecidedAt   *time.Time `json:"decided_at,omitempty"`
	Generation  int64      `json:"requested_generation,omitempty"` // that the demand is part of
	Undecided   bool       `json:"undecided"`                      // waits for the trigger, first time or again
}

// The receipt and the undecided mark are looked up per row, so that a limit keeps
// its meaning for the planner.
const factSQL = `
SELECT o.seq, o.event_id, o.firm_id, o.matter_id, o.event_name, o.occurred_at, o.recorded_at, coalesce(o.traceparent, ''),
       o.published_at, coalesce(r.verdict, ''), r.decided_at, coalesce(r.requested_generation, 0), u.seq IS NOT NULL
  FROM ops.domain_event_outbox o
  LEFT JOIN ops.trigger_receipts r ON r.event_id = o.event_id
  LEFT JOIN ops.outbox_undecided u ON u.seq = o.seq`

// FactFilter narrows Outbox; zero fields do not.
type FactFilter struct {
	Firm      rail.UUID
	Matter    rail.UUID // with or without a firm
	Name      string    // exact event name
	Verdict   string    // LIKE pattern, as gated:%; "none" for facts without a receipt
	Undecided bool      // only facts that wait for the trigger
	Since     time.Time // recorded at or after
	Limit     int       // 0 for 50
}

const factFilter = `
 WHERE ($1::uuid IS NULL OR o.firm_id = $1) AND ($2::uuid IS NULL OR o.matter_id = $2) AND ($3 = '' OR o.event_name = $3)
   AND ($4 = '' OR ($4 = 'none' AND r.event_id IS NULL) OR r.verdict LIKE $4) AND (NOT $5::bool OR u.seq IS NOT NULL)
   AND o.recorded_at >= coalesce($6::timestamptz, '-infinity')`

// Outbox lists facts with their verdicts, the latest recorded first.
func Outbox(ctx context.Context, db pg.DB, f FactFilter) ([]FactRow, error) {
	limit := orDefault(f.Limit)
	bounded := !f.Firm.IsZero() || !f.Since.IsZero()
	rows, err := widening(bounded, f.Since, limit, func(since *time.Time) ([]FactRow, error) {
		return list[FactRow](ctx, db, factSQL+factFilter+` ORDER BY o.recorded_at DESC, o.seq DESC LIMIT $7`,
			f.Firm, f.Matter, f.Name, f.Verdict, f.Undecided, since, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("audit.Outbox: %w", err)
	}
	return rows, nil
}

// OutboxCount counts what Outbox would list without a limit.
func OutboxCount(ctx context.Context, db pg.DB, f FactFilter) (n int64, err error) {
	const sql = `
SELECT count(*) FROM ops.domain_event_outbox o
  LEFT JOIN ops.trigger_receipts r ON r.event_id = o.event_id
  LEFT JOIN ops.outbox_undecided u ON u.seq = o.seq` + factFilter
	err = db.QueryRow(ctx, sql, f.Firm, f.Matter, f.Name, f.Verdict, f.Undecided, optional(f.Since)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("audit.OutboxCount: %w", err)
	}
	return n, nil
}

// ReadFact reads one fact; ErrNotFound where there is none, or no longer.
func ReadFact(ctx context.Context, db pg.DB, event rail.UUID) (FactRow, error) {
	f, err := one[FactRow](ctx, db, factSQL+` WHERE o.event_id = $1`, event)
	if err != nil {
		return FactRow{}, fmt.Errorf("audit.ReadFact(%s): %w", event, err)
	}
	return f, nil
}
