package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Held is what the ledger still knows of an event: its fact, its receipt, or both.
// Name is empty where retention has taken the fact, Verdict where nothing is decided.
type Held struct {
	Event   rail.UUID
	Firm    rail.UUID
	Matter  rail.UUID // nil UUID for a fact without one
	Name    string
	Verdict string
}

const heldSQL = `
SELECT e.id, o.firm_id, o.matter_id, coalesce(o.event_name, ''), coalesce(r.verdict, '')
  FROM unnest($1::uuid[]) AS e (id)
  LEFT JOIN ops.domain_event_outbox o ON o.event_id = e.id
  LEFT JOIN ops.trigger_receipts r ON r.event_id = e.id
 WHERE o.event_id IS NOT NULL OR r.event_id IS NOT NULL`

// ReadHeld looks events up that somebody else named, as a nudge does. An event that
// the ledger has never known, or forgot, is missing from the answer.
func ReadHeld(ctx context.Context, db pg.DB, events []rail.UUID) (map[rail.UUID]Held, error) {
	rows, err := db.Query(ctx, heldSQL, events)
	if err != nil {
		return nil, fmt.Errorf("audit.ReadHeld(%d events): %w", len(events), err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Held])
	if err != nil {
		return nil, fmt.Errorf("audit.ReadHeld(%d events): %w", len(events), err)
	}
	out := make(map[rail.UUID]Held, len(all))
	for _, h := range all {
		out[h.Event] = h
	}
	return out, nil
}
