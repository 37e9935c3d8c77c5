package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// StaleMatter is a matter that owes a build, and what happens to it next.
type StaleMatter struct {
	MatterRow
	Next string `json:"next"` // as in Explanation
}

// aheadOfSQL counts, for each of several queued matters, what aheadSQL counts for
// one, as far as anybody reads the number.
const aheadOfSQL = `
SELECT (SELECT count(*) FROM (
          SELECT 1 FROM ops.matter_frame_jobs j
           WHERE j.run_status = 'queued' AND j.firm_id = w.firm AND j.not_before <= clock_timestamp()
             AND (j.priority, j.queued_at) < (w.priority, w.queued)
           LIMIT $4) b)
  FROM unnest($1::uuid[], $2::smallint[], $3::timestamptz[]) WITH ORDINALITY AS w (firm, priority, queued, place)
 ORDER BY w.place`

// Stale lists the matters that owe a build, the longest owed first, each with what
// happens next in words: at most limit of them (0 for 50), the canary's left out.
func Stale(ctx context.Context, db pg.DB, limit int) ([]StaleMatter, error) {
	var out []StaleMatter
	err := snapshot(ctx, db, 0, func(tx pgx.Tx) error {
		rows, err := list[MatterRow](ctx, tx, mattersSQL(owedMatters), rail.Canary().Firm, rail.UUID{}, "", orDefault(limit))
		if err != nil {
			return err
		}
		out, err = foretold(ctx, tx, rows)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("audit.Stale: %w", err)
	}
	return out, nil
}

// foretold says of each what happens next.
func foretold(ctx context.Context, tx pgx.Tx, rows []MatterRow) ([]StaleMatter, error) {
	var now time.Time
	if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return nil, err
	}
	pauses, err := list[PauseRow](ctx, tx, pauseSQL+` ORDER BY paused_at`)
	if err != nil {
		return nil, err
	}
	trouble, err := ReadBuilderTrouble(ctx, tx)
	if err != nil {
		return nil, err
	}
	ahead, err := aheadOf(ctx, tx, rows)
	if err != nil {
		return nil, err
	}
	out := make([]StaleMatter, len(rows))
	for i, r := range rows {
		e := Explanation{Key: r.Key, At: now, Job: &rows[i].JobRow, Pauses: holding(pauses, r.Firm)}
		out[i].MatterRow = r
		if r.Status != "queued" {
			out[i].Next = e.nextByStatus()
			continue
		}
		e.Builder = trouble
		out[i].Next = e.queuedText(r.JobRow, ahead[r.Key])
	}
	return out, nil
}

// holding are the pauses that hold a firm.
func holding(pauses []PauseRow, firm rail.UUID) []PauseRow {
	return slices.DeleteFunc(slices.Clone(pauses), func(p PauseRow) bool { return !p.Firm.IsZero() && p.Firm != firm })
}

func aheadOf(ctx context.Context, tx pgx.Tx, rows []MatterRow) (map[rail.Key]int64, error) {
	var keys []rail.Key
	var firms []rail.UUID
	var priorities []int16
	var queued []*time.Time
	for _, r := range rows {
		if r.Status == "queued" {
			keys, firms, priorities, queued = append(keys, r.Key), append(firms, r.Firm), append(priorities, r.Priority), append(queued, r.QueuedAt)
		}
	}
	q, err := tx.Query(ctx, aheadOfSQL, firms, priorities, queued, mostAhead+1)
	if err != nil {
		return nil, err
	}
	counts, err := pgx.CollectRows(q, pgx.RowTo[int64])
	if err != nil {
		return nil, err
	}
	out := make(map[rail.Key]int64, len(keys))
	for i, k := range keys {
		out[k] = counts[i]
	}
	return out, nil
}
