package audit

import (
	"context"
	"fmt"
	"time"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// ParkedFilter narrows ParkedMatters; zero fields do not.
type ParkedFilter struct {
	Firm   rail.UUID
	By     string        // failures or operator
	Reason string        // part of the reason, in any case of letters
	Older  time.Duration // parked for at least so long
}

// A parked job's queued_at is when it was parked: every way there sets it.
const parkedFilterSQL = `
 WHERE run_status = 'parked' AND firm_id <> $1 AND ($2::uuid IS NULL OR firm_id = $2) AND ($3 = '' OR parked_by = $3)
   AND ($4 = '' OR strpos(lower(parked_reason), lower($4)) > 0) AND queued_at <= clock_timestamp() - $5::interval`

func (f ParkedFilter) args() []any {
	return []any{rail.Canary().Firm, f.Firm, f.By, f.Reason, f.Older}
}

// ParkedMatters lists the jobs of a filter, the longest parked first, at most limit
// of them (0 for 50); their QueuedAt is when they were parked.
func ParkedMatters(ctx context.Context, db pg.DB, f ParkedFilter, limit int) ([]JobRow, error) {
	rows, err := list[JobRow](ctx, db, jobSQL+parkedFilterSQL+` ORDER BY queued_at, firm_id, matter_id LIMIT $6`, append(f.args(), orDefault(limit))...)
	if err != nil {
		return nil, fmt.Errorf("audit.ParkedMatters: %w", err)
	}
	return rows, nil
}

// ParkedKeys lists the keys of a filter in key order, at most limit of them: what a
// change to many of them is about to touch.
func ParkedKeys(ctx context.Context, db pg.DB, f ParkedFilter, limit int) ([]rail.Key, error) {
	keys, err := list[rail.Key](ctx, db, `SELECT firm_id, matter_id FROM ops.matter_frame_jobs`+parkedFilterSQL+
		` ORDER BY firm_id, matter_id LIMIT $6`, append(f.args(), orDefault(limit))...)
	if err != nil {
		return nil, fmt.Errorf("audit.ParkedKeys: %w", err)
	}
	return keys, nil
}
