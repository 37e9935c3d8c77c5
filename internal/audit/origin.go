package audit

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// The receipts say of which generation a fact's demand became a part: what is above
// the landed one and below the claim's own is what this build serves. Only the
// matter's last facts are looked at, so that one with very many costs no more.
const originSQL = `
SELECT l.epoch, coalesce(o.traceparent, ''), coalesce(o.tracestate, '')
  FROM ops.ledger l
  LEFT JOIN LATERAL (
    SELECT f.traceparent, f.tracestate
      FROM (SELECT event_id, seq, traceparent, tracestate FROM ops.domain_event_outbox
             WHERE firm_id = $1 AND matter_id = $2 ORDER BY seq DESC LIMIT 256) f
      JOIN ops.trigger_receipts r ON r.event_id = f.event_id
     WHERE f.traceparent IS NOT NULL AND r.requested_generation < $3 AND r.requested_generation >
           (SELECT j.landed_generation FROM ops.matter_frame_jobs j WHERE j.firm_id = $1 AND j.matter_id = $2)
     ORDER BY f.seq DESC LIMIT 128) o ON true`

// Origin reads what caused a claim: the trace contexts of the facts that its build
// serves, of the latest 128 at most and each once, and the ledger's epoch. It is right
// while the claim is live.
func Origin(ctx context.Context, db pg.DB, c jobs.Claim) (causes []rail.TraceContext, epoch int64, err error) {
	rows, err := db.Query(ctx, originSQL, c.Key.Firm, c.Key.Matter, c.Token.Generation)
	if err != nil {
		return nil, 0, fmt.Errorf("audit.Origin(%s): %w", c.Key, err)
	}
	var t rail.TraceContext
	_, err = pgx.ForEachRow(rows, []any{&epoch, &t.Parent, &t.State}, func() error {
		if t.Parent != "" && !slices.Contains(causes, t) { // one transaction may have told of many facts
			causes = append(causes, t)
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("audit.Origin(%s): %w", c.Key, err)
	}
	return causes, epoch, nil
}
