package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// MatterRow is a job with who parked it and when.
type MatterRow struct {
	JobRow
	ParkedSince *time.Time `json:"parked_since,omitempty"` // nil unless parked, or where retention has taken what told it
	ParkedActor string     `json:"parked_actor,omitempty"` // the operator, where one parked it
}

// MatterFilter narrows Matters; zero fields do not.
type MatterFilter struct {
	Firm   rail.UUID
	Status string // run_status
	Limit  int    // 0 for 50
}

// mattersSQL lists one part of the jobs. A job does not say when it was parked: the
// audit log does for operators, the last run for failures.
func mattersSQL(part string) string {
	return `
SELECT j.*, CASE j.parked_by WHEN 'operator' THEN act.at WHEN 'failures' THEN
         (SELECT max(r.finished_at) FROM ops.matter_frame_runs r WHERE r.firm_id = j.firm_id AND r.matter_id = j.matter_id) END,
       coalesce(act.actor, '')
  FROM (` + jobSQL + `
         WHERE firm_id <> $1 AND ($2::uuid IS NULL OR firm_id = $2) AND ($3 = '' OR run_status = $3) AND ` + part + `) j
  LEFT JOIN LATERAL (
    SELECT a.at, a.actor FROM ops.audit_log a
     WHERE j.parked_by = 'operator' AND a.target = j.firm_id || '/' || j.matter_id AND a.action IN ('matter.park', 'matter.cancel')
     ORDER BY a.id DESC LIMIT 1) act ON true
 ORDER BY j.owed_since, j.firm_id, j.matter_id`
}

// What is owed has an index of its own; idle jobs go by key, so that a list of a
// million of them reads a page.
const (
	owedMatters = `owed_since IS NOT NULL ORDER BY owed_since, firm_id, matter_id LIMIT $4`
	idleMatters = `owed_since IS NULL ORDER BY firm_id, matter_id LIMIT $4`
)

// Matters lists jobs: those that owe a build first, the longest owed before the
// others, then the idle ones in key order. The canary's is left out.
func Matters(ctx context.Context, db pg.DB, f MatterFilter) ([]MatterRow, error) {
	left := orDefault(f.Limit)
	var out []MatterRow
	err := snapshot(ctx, db, 0, func(tx pgx.Tx) error {
		for _, part := range []string{owedMatters, idleMatters} {
			if left == 0 {
				return nil
			}
			rows, err := list[MatterRow](ctx, tx, mattersSQL(part), rail.Canary().Firm, f.Firm, f.Status, left)
			if err != nil {
				return err
			}
			out, left = append(out, rows...), left-len(rows)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("audit.Matters: %w", err)
	}
	return out, nil
}

// KnownFirm reports whether anything in the ledger names a firm: a job, a fact or a
// pause.
func KnownFirm(ctx context.Context, db pg.DB, firm rail.UUID) (known bool, err error) {
	const sql = `
SELECT EXISTS (SELECT 1 FROM ops.matter_frame_jobs WHERE firm_id = $1)
    OR EXISTS (SELECT 1 FROM ops.domain_event_outbox WHERE firm_id = $1)
    OR EXISTS (SELECT 1 FROM ops.dispatch_pauses WHERE firm_id = $1)`
	if err := db.QueryRow(ctx, sql, firm).Scan(&known); err != nil {
		return false, fmt.Errorf("audit.KnownFirm(%s): %w", firm, err)
	}
	return known, nil
}
