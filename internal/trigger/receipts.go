package trigger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/outbox"
	"briefrail/internal/rail"
)

// judged is a fact with its verdict and, for Demanded, the generation that the
// demand is part of.
type judged struct {
	fact      outbox.Fact
	verdict   Verdict
	rule      Rule
	requested int64
}

// A fact judged again (redecide, a raised epoch) gets the newer verdict, except
// that demand stays demand.
const receiptsSQL = `
INSERT INTO ops.trigger_receipts AS r (event_id, verdict, requested_generation)
SELECT event_id, verdict, nullif(generation, 0)
  FROM unnest($1::uuid[], $2::text[], $3::bigint[]) AS u (event_id, verdict, generation)
ON CONFLICT (event_id) DO UPDATE
   SET verdict = EXCLUDED.verdict, decided_at = clock_timestamp(), requested_generation = EXCLUDED.requested_generation
 WHERE r.verdict <> 'demanded' OR EXCLUDED.verdict = 'demanded'`

func writeReceipts(ctx context.Context, tx pgx.Tx, all []judged) error {
	events := make([]rail.UUID, len(all))
	verdicts := make([]string, len(all))
	generations := make([]int64, len(all))
	for i, j := range all {
		events[i], verdicts[i], generations[i] = j.fact.Event, string(j.verdict), j.requested
	}
	if _, err := tx.Exec(ctx, receiptsSQL, events, verdicts, generations); err != nil {
		return fmt.Errorf("trigger.writeReceipts(%d facts): %w", len(all), err)
	}
	return nil
}
