package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Claim names a live claim: the matter and the token that serves it.
type Claim struct {
	Key   rail.Key
	Token rail.Token
}

// Renewal is the verdict on one claim.
type Renewal int

// The verdicts of Renew.
const (
	Renewed Renewal = iota
	Fenced          // the row serves another token: stop the build at once
	Locked          // somebody holds the row: ask again soon
)

// Rows that somebody holds are skipped, so that one long transaction on one matter
// cannot let the leases of all the others run out.
const renewSQL = `
WITH mine AS (
  SELECT * FROM unnest(@firms::uuid[], @matters::uuid[], @generations::bigint[], @runs::uuid[])
    WITH ORDINALITY AS u (firm_id, matter_id, generation, run_id, i)
), held AS (
  SELECT j.firm_id, j.matter_id FROM mine m JOIN ops.matter_frame_jobs j ON j.firm_id = m.firm_id AND j.matter_id = m.matter_id
   WHERE j.run_status = 'running' AND j.claimed_generation = m.generation AND j.run_id = m.run_id
   ORDER BY j.firm_id, j.matter_id
     FOR UPDATE OF j SKIP LOCKED
), renewed AS (
  UPDATE ops.matter_frame_jobs j SET lease_expires_at = clock_timestamp() + @lease::interval
    FROM held h WHERE j.firm_id = h.firm_id AND j.matter_id = h.matter_id
  RETURNING j.run_id
)
SELECT CASE WHEN r.run_id IS NOT NULL THEN 0
            WHEN j.run_id IS DISTINCT FROM m.run_id OR j.claimed_generation IS DISTINCT FROM m.generation THEN 1
            ELSE 2 END
  FROM mine m
  LEFT JOIN renewed r ON r.run_id = m.run_id
  LEFT JOIN ops.matter_frame_jobs j ON j.firm_id = m.firm_id AND j.matter_id = m.matter_id
 ORDER BY m.i`

// Renew extends the leases of claims to lease from now, by the database's clock,
// in one statement, and returns a verdict for each in the same order. A token
// never comes back, so Fenced is final.
func Renew(ctx context.Context, db pg.DB, claims []Claim, lease time.Duration) ([]Renewal, error) {
	n := len(claims)
	firms, matters, runs := make([]rail.UUID, n), make([]rail.UUID, n), make([]rail.UUID, n)
	generations := make([]int64, n)
	for i, c := range claims {
		firms[i], matters[i], generations[i], runs[i] = c.Key.Firm, c.Key.Matter, c.Token.Generation, c.Token.Run
	}
	rows, err := db.Query(ctx, renewSQL, pgx.NamedArgs{
		"firms": firms, "matters": matters, "generations": generations, "runs": runs, "lease": lease,
	})
	if err != nil {
		return nil, fmt.Errorf("jobs.Renew(%d claims): %w", n, err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[Renewal])
	if err != nil {
		return nil, fmt.Errorf("jobs.Renew(%d claims): %w", n, err)
	}
	return out, nil
}
