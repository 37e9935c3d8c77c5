package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Fact is a row of the outbox. Matter is the nil UUID where the fact has none.
type Fact struct {
	Seq         int64
	Event       rail.UUID
	Firm        rail.UUID
	Matter      rail.UUID
	Name        rail.EventName
	RecordedAt  time.Time
	TraceParent string
}

// Key returns the matter's key; meaningless without a matter.
func (f Fact) Key() rail.Key { return rail.Key{Firm: f.Firm, Matter: f.Matter} }

// By number, so that what was decided and cannot be cleared away yet is not read.
const waitingSQL = `
SELECT coalesce((SELECT true FROM ops.outbox_undecided
                  WHERE seq >= $2 AND recorded_at <= clock_timestamp() - $1::interval ORDER BY seq LIMIT 1), false)`

// Waiting reports whether any fact older than grace, from number seq on, is
// undecided: the one query of an idle trigger.
func Waiting(ctx context.Context, db pg.DB, grace time.Duration, seq int64) (yes bool, err error) {
	if err := db.QueryRow(ctx, waitingSQL, grace, seq).Scan(&yes); err != nil {
		return false, fmt.Errorf("outbox.Waiting: %w", err)
	}
	return yes, nil
}

// Locked rows are skipped: another worker is deciding them. Locking in seq order,
// and before any job row, keeps deciders from deadlocking.
const takeSQL = `
SELECT u.seq, o.event_id, o.firm_id, o.matter_id, o.event_name, o.recorded_at, coalesce(o.traceparent, '')
  FROM ops.outbox_undecided u JOIN ops.domain_event_outbox o ON o.event_id = u.event_id
 WHERE u.recorded_at <= clock_timestamp() - $1::interval AND u.seq >= $2
 ORDER BY u.seq LIMIT $3
   FOR UPDATE OF u SKIP LOCKED`

// Take locks up to limit undecided facts older than grace, from number seq on, for
// the rest of the transaction. That should not use sequential scans: where much is
// dead, statistics of the few that live speak for one.
func Take(ctx context.Context, tx pgx.Tx, grace time.Duration, seq int64, limit int) ([]Fact, error) {
	rows, err := tx.Query(ctx, takeSQL, grace, seq, limit)
	if err != nil {
		return nil, fmt.Errorf("outbox.Take: %w", err)
	}
	facts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Fact])
	if err != nil {
		return nil, fmt.Errorf("outbox.Take: %w", err)
	}
	return facts, nil
}

// Settle ends the undecided state of facts that Take has locked.
func Settle(ctx context.Context, tx pgx.Tx, facts []Fact) error {
	seqs := make([]int64, len(facts))
	for i, f := range facts {
		seqs[i] = f.Seq
	}
	tag, err := tx.Exec(ctx, `DELETE FROM ops.outbox_undecided WHERE seq = ANY($1)`, seqs)
	if err != nil {
		return fmt.Errorf("outbox.Settle(%d facts): %w", len(facts), err)
	}
	if int(tag.RowsAffected()) != len(facts) {
		// unreachable unless a caller settles what it has not taken
		return fmt.Errorf("outbox.Settle: %d of %d facts were undecided", tag.RowsAffected(), len(facts))
	}
	return nil
}

// A lock that another decider holds is waited for: it holds it for one transaction,
// and afterwards the row is gone. Locking in seq order, as Take does, keeps the two
// from deadlocking.
const takeEventsSQL = `
SELECT u.seq, o.event_id, o.firm_id, o.matter_id, o.event_name, o.recorded_at, coalesce(o.traceparent, '')
  FROM ops.domain_event_outbox o JOIN ops.outbox_undecided u ON u.seq = o.seq
 WHERE o.event_id = ANY($1)
 ORDER BY u.seq
   FOR UPDATE OF u`

// TakeEvents locks those of the named facts that are undecided, for the rest of
// the transaction.
func TakeEvents(ctx context.Context, tx pgx.Tx, events []rail.UUID) ([]Fact, error) {
	return collectFacts(ctx, tx, "outbox.TakeEvents", takeEventsSQL, events)
}

const factsSQL = `
SELECT seq, event_id, firm_id, matter_id, event_name, recorded_at, coalesce(traceparent, '')
  FROM ops.domain_event_outbox WHERE event_id = ANY($1)`

// Facts reads those of the named facts that the outbox still has.
func Facts(ctx context.Context, db pg.DB, events []rail.UUID) ([]Fact, error) {
	return collectFacts(ctx, db, "outbox.Facts", factsSQL, events)
}

func collectFacts(ctx context.Context, db pg.DB, op, sql string, events []rail.UUID) ([]Fact, error) {
	rows, err := db.Query(ctx, sql, events)
	if err != nil {
		return nil, fmt.Errorf("%s(%d events): %w", op, len(events), err)
	}
	facts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Fact])
	if err != nil {
		return nil, fmt.Errorf("%s(%d events): %w", op, len(events), err)
	}
	return facts, nil
}
