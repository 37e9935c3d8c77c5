package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Actor is who acts and why; both go into the audit row of the same transaction.
type Actor struct {
	Name   string
	Reason string
}

// Demand records one demand for each key on an operator's word, without settle.
// The keys must be distinct. It returns how many matters it reached.
func (a Actor) Demand(ctx context.Context, db pg.DB, keys []rail.Key, p rail.Priority) (n int64, err error) {
	firms, matters := split(keys)
	err = db.QueryRow(ctx, `SELECT ops.operator_demand($1, $2, $3, $4, $5)`, firms, matters, int16(p), a.Name, a.Reason).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("jobs.Demand(%d matters): %w", len(keys), err)
	}
	return n, nil
}

func split(keys []rail.Key) (firms, matters []rail.UUID) {
	for _, k := range keys {
		firms, matters = append(firms, k.Firm), append(matters, k.Matter)
	}
	return firms, matters
}

// Park stops a queued or running job until somebody unparks it; a live claim is
// fenced. was is the status before, empty where there was nothing to stop.
func (a Actor) Park(ctx context.Context, db pg.DB, k rail.Key) (was string, err error) {
	return a.stop(ctx, db, k, "park")
}

// Cancel is Park under the name that operators use for a running build.
func (a Actor) Cancel(ctx context.Context, db pg.DB, k rail.Key) (was string, err error) {
	return a.stop(ctx, db, k, "cancel")
}

func (a Actor) stop(ctx context.Context, db pg.DB, k rail.Key, action string) (string, error) {
	var was *string
	err := db.QueryRow(ctx, `SELECT ops.park_matter($1, $2, $3, $4, $5)`, k.Firm, k.Matter, action, a.Name, a.Reason).Scan(&was)
	if err != nil || was == nil {
		return "", wrap("jobs."+action, k, err)
	}
	return *was, nil
}

// Unpark queues a parked job at once with its attempts forgotten; false where it
// was not parked.
func (a Actor) Unpark(ctx context.Context, db pg.DB, k rail.Key) (was bool, err error) {
	err = db.QueryRow(ctx, `SELECT ops.unpark_matter($1, $2, $3, $4)`, k.Firm, k.Matter, a.Name, a.Reason).Scan(&was)
	return was, wrap("jobs.Unpark", k, err)
}

// Purged counts what Purge took.
type Purged struct {
	Frames int64 `json:"frames"`
	Runs   int64 `json:"runs"`
	Jobs   int64 `json:"jobs"`
}

// Purge deletes a matter's frames, runs and job. A live claim is fenced by it.
// Facts and receipts, which hold ids only, stay until their own retention.
func (a Actor) Purge(ctx context.Context, db pg.DB, k rail.Key) (p Purged, err error) {
	err = db.QueryRow(ctx, `SELECT frames, runs, jobs FROM ops.purge_matter($1, $2, $3, $4)`, k.Firm, k.Matter, a.Name, a.Reason).
		Scan(&p.Frames, &p.Runs, &p.Jobs)
	return p, wrap("jobs.Purge", k, err)
}

// Pause stops dispatch for one firm, or for all with the nil UUID; false where it
// was paused already. Demand is still recorded, running builds go on.
func (a Actor) Pause(ctx context.Context, db pg.DB, firm rail.UUID) (changed bool, err error) {
	err = db.QueryRow(ctx, `SELECT ops.pause_dispatch($1, $2, $3)`, firm, a.Name, a.Reason).Scan(&changed)
	return changed, wrap("jobs.Pause", rail.Key{Firm: firm}, err)
}

// Resume ends a Pause; false where there was none.
func (a Actor) Resume(ctx context.Context, db pg.DB, firm rail.UUID) (changed bool, err error) {
	err = db.QueryRow(ctx, `SELECT ops.resume_dispatch($1, $2, $3)`, firm, a.Name, a.Reason).Scan(&changed)
	return changed, wrap("jobs.Resume", rail.Key{Firm: firm}, err)
}

func wrap(op string, k rail.Key, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s(%s): %w", op, k, err)
}

const walkSQL = `
SELECT firm_id, matter_id FROM ops.matter_frame_jobs
 WHERE (firm_id, matter_id) > ($1::uuid, $2::uuid) ORDER BY firm_id, matter_id LIMIT $3`

// Walk returns up to limit keys after the given one, in key order: how the
// retention of frames visits every matter in small steps.
func Walk(ctx context.Context, db pg.DB, after rail.Key, limit int) ([]rail.Key, error) {
	rows, err := db.Query(ctx, walkSQL, [16]byte(after.Firm), [16]byte(after.Matter), limit)
	if err != nil {
		return nil, wrap("jobs.Walk", after, err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[rail.Key])
	return keys, wrap("jobs.Walk", after, err)
}
