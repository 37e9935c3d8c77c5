package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Reach is how far back a look at the ledger goes; the zero value is all the way.
// What is dead and cannot be cleared away, because somebody holds an old snapshot,
// lies before it and need not be passed. It is a hint of one process and of a moment:
// what is older and becomes claimable all the same is found by a look without one.
type Reach struct {
	Queued  time.Time   // of which rows of the queue are looked at, beside those of Older
	Older   []rail.Key  // that may be claimed and are older; empty where they are too many
	Claimed time.Time   // of which builds are counted, beside those of Running
	Running []rail.UUID // the firms of older builds, one for each
	Live    time.Time   // the oldest claim that is running
}

// All reports whether it is no bound at all.
func (r Reach) All() bool { return r.Queued.IsZero() }

// Args adds the arguments of a batch claim. Running builds are all counted where a
// limit depends on it.
func (r Reach) Args(args pgx.NamedArgs, limited bool) {
	args["queued_since"], args["claimed_since"], args["running"] = r.queued(), nil, []rail.UUID{}
	args["older_firms"], args["older_matters"] = r.older()
	if !r.All() && !limited {
		args["claimed_since"], args["running"] = r.Claimed, r.Running
	}
}

func (r Reach) older() (firms, matters []rail.UUID) {
	firms, matters = make([]rail.UUID, len(r.Older)), make([]rail.UUID, len(r.Older))
	for i, k := range r.Older {
		firms[i], matters[i] = k.Firm, k.Matter
	}
	return firms, matters
}

// queued is the bound of the queue as an argument, NULL where there is none.
func (r Reach) queued() any { return r.bound(r.Queued) }

// LiveSince is the argument of ExpireCTE.
func (r Reach) LiveSince() any { return r.bound(r.Live) }

func (r Reach) bound(t time.Time) any {
	if r.All() {
		return nil
	}
	return t
}

// A claim's instant, and those of a demand, are taken a little before they are
// committed. What is queued for longer, or was demanded again during its build, is
// known by its key, unless there is much of it: then the reach is as old as that. A row
// that backs off beyond the end of a reach does not count.
const reachSQL = `
WITH n AS MATERIALIZED (
  SELECT clock_timestamp() AS now, clock_timestamp() - $1::interval AS soon
), running AS MATERIALIZED (
  SELECT firm_id, matter_id, claimed_at, rebuild_since FROM ops.matter_frame_jobs
   WHERE run_status = 'running' AND claimed_at >= coalesce($4::timestamptz, '-infinity')
), older AS MATERIALIZED (
  SELECT q.firm_id, q.matter_id, q.queued_at FROM ops.matter_frame_jobs q, n
   WHERE q.run_status = 'queued' AND q.queued_at >= coalesce($5::timestamptz, '-infinity') AND q.queued_at < n.soon
     AND (q.attempts = 0 OR q.not_before <= n.now + $2::interval)
     AND q.bucket <> ALL ((SELECT ops.buckets_elsewhere())::smallint[])
     AND NOT EXISTS (SELECT 1 FROM ops.dispatch_pauses p WHERE p.firm_id IS NULL)
     AND NOT EXISTS (SELECT 1 FROM ops.dispatch_pauses p WHERE p.firm_id = q.firm_id)
  UNION
  SELECT r.firm_id, r.matter_id, r.rebuild_since FROM running r, n WHERE r.rebuild_since < n.soon
  UNION
  SELECT q.* FROM unnest($6::uuid[], $7::uuid[]) AS o (firm_id, matter_id) CROSS JOIN LATERAL (
    SELECT j.firm_id, j.matter_id, j.queued_at FROM ops.matter_frame_jobs j
     WHERE j.firm_id = o.firm_id AND j.matter_id = o.matter_id AND j.run_status || '' = 'queued' LIMIT 1) q
)
SELECT CASE WHEN o.few THEN n.soon ELSE o.oldest END,
       CASE WHEN o.few THEN o.firms ELSE '{}' END, CASE WHEN o.few THEN o.matters ELSE '{}' END,
       n.soon, r.firms, least(n.soon, r.oldest)
  FROM n,
       (SELECT count(*) <= $3 AS few, min(queued_at) AS oldest,
               coalesce(array_agg(firm_id), '{}') AS firms, coalesce(array_agg(matter_id), '{}') AS matters FROM older) o,
       (SELECT coalesce(array_agg(firm_id) FILTER (WHERE claimed_at < n.soon), '{}') AS firms, min(claimed_at) AS oldest FROM running, n) r`

const (
	// commitsWithin is how long after its instant a row may be committed and is still
	// inside of a reach.
	commitsWithin = 2 * time.Second
	// mostOlder is how many rows are looked up by their keys.
	mostOlder = 256
)

// readReach goes as far back as the reach before, and once all the way: then it passes
// all that a reach is to spare others.
func readReach(ctx context.Context, db pg.DB, before Reach) (r Reach, err error) {
	firms, matters := before.older()
	err = db.QueryRow(ctx, reachSQL, commitsWithin, longestReach, mostOlder, before.LiveSince(), before.queued(), firms, matters).
		Scan(&r.Queued, &firms, &matters, &r.Claimed, &r.Running, &r.Live)
	if err != nil {
		return Reach{}, fmt.Errorf("jobs.readReach: %w", err)
	}
	for i := range firms {
		r.Older = append(r.Older, rail.Key{Firm: firms[i], Matter: matters[i]})
	}
	return r, nil
}

// Horizon says how far each look of a loop should reach. While a look at everything
// is cheap, every look is one. Where it is not, it takes a twentieth of the time at
// most, and in between only what is known to be alive or new is looked at. Not safe
// for concurrent use.
type Horizon struct {
	reach Reach
	full  time.Time     // when the last look at everything ended
	cost  time.Duration // of that
	asked time.Time     // when the reach was read
	price time.Duration // of that
}

const (
	cheapLook    = 5 * time.Millisecond
	rest         = 20 // pauses between two looks at everything are so much longer than it took
	longestReach = time.Minute
)

// Next is the reach of the next look. It asks the database when a look at everything
// was dear and has not been long ago, and again when time has passed, as a reach grows
// with that; an answer that fails changes nothing.
func (h *Horizon) Next(ctx context.Context, db pg.DB) Reach {
	if time.Since(h.full) >= min(rest*h.cost, longestReach) {
		return Reach{}
	}
	if !h.reach.All() && time.Since(h.asked) < rest*h.price {
		return h.reach
	}
	begun, first := time.Now(), h.reach.All()
	r, err := readReach(ctx, db, h.reach)
	if err != nil {
		return h.reach
	}
	took := time.Since(begun)
	if first { // it has passed everything
		h.cost += min(took, h.cost)
		took = cheapLook
	}
	h.reach, h.asked, h.price = r, time.Now(), max(took, cheapLook)
	return r
}

// Looked notes how long a look took. A look is not believed to be more than twice as
// dear as the one before: a server that stalled is no reason to look away for long,
// and what cannot be cleared away grows little by little.
func (h *Horizon) Looked(r Reach, took time.Duration) {
	if !r.All() {
		return
	}
	h.reach, h.full, h.cost = Reach{}, time.Now(), min(took, max(2*h.cost, cheapLook))
	if took < cheapLook {
		h.cost = 0
	}
}
