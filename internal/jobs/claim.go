package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"briefrail/internal/pg"
)

// ClaimCTE returns the common table expressions of a batch claim, ending in
// "claimed", one row a job won. The caller opens the run of each in the same
// statement. lastClaim and highest are scalar subqueries over the caller's runs:
// when firm f.firm_id was last claimed for, and the highest generation that
// matter (p.firm_id, p.matter_id) ever handed out.
//
// Named arguments: @slots (jobs wanted, bigint), @scan (how many queued rows of a
// firm and priority are looked at, null for all), @per_firm and @total (limits, 0 for none),
// @lease (interval), @only (a firm, or null for all), @runs (at least @slots fresh
// run ids: the claimant makes them, so that it can ask for them when the answer is
// lost), and those of Reach.Args.
//
// What another writer has authority over, or what is closed for a crossing, is not
// claimed: the fence is asked once a statement, and its epoch is written to the row.
//
// Order: the firm with the fewest running builds, ties to the firm whose last
// claim is oldest; inside a firm by priority, then queued_at.
func ClaimCTE(lastClaim, highest string) string {
	return strings.NewReplacer("{last_claim}", lastClaim, "{highest}", highest).Replace(claimCTE)
}

// The pick visits each firm once (a skip scan that brings the head of the firm's
// queue along: where it is ready, nothing more need be asked), ranks the firms by
// what they run, asks for the last claim of those that can still be among the
// first 4 x @slots + 4, ranks each of their rows by how many builds its firm would
// then have, and locks from the best downwards. Of firms and of rows it takes more
// than can win: room for rows that other workers hold or have just taken, as a
// claim that comes back empty from a full queue costs its worker a pause.
//
// Its plan must not depend on statistics, which are always stale for a queue, nor
// on the parameters, as the plan is made once for all of them: hence the grouping
// instead of joins, the lateral look-ups by key that nothing can be joined to in
// another way, and the arrays, which are planned as ten rows whatever the limits.
// Rows go on by the version (ctid) that was seen, which no other session can take from
// under a statement: by key, all versions that cannot be cleared away would be passed,
// for each row twice. One that is changed in that instant may be left for the next claim.
// Within a reach, the bound on queued_at is checked inside the queue's index in the
// visit of the firms, so that what lies before it costs no visit to the table; of one
// firm and priority it is where the scan begins, and so is that on claimed_at of the
// running. The older rows that a reach names are looked up by key, once.
const claimCTE = `
WITH RECURSIVE fence AS MATERIALIZED (
  SELECT ops.buckets_elsewhere() AS away
), older AS MATERIALIZED (
  SELECT q.* FROM unnest(@older_firms::uuid[], @older_matters::uuid[]) AS o (firm_id, matter_id)
   CROSS JOIN LATERAL (
    SELECT j.ctid AS version, j.firm_id, j.matter_id, j.priority, j.queued_at, j.not_before <= clock_timestamp() AND j.bucket <> ALL ((SELECT away FROM fence)::smallint[]) AS ready
      FROM ops.matter_frame_jobs j
     WHERE j.firm_id = o.firm_id AND j.matter_id = o.matter_id AND j.run_status || '' = 'queued' AND j.queued_at < @queued_since::timestamptz
     LIMIT 1) q
), firms AS (
  (SELECT q.firm_id, q.not_before <= clock_timestamp() AND q.bucket <> ALL ((SELECT away FROM fence)::smallint[]) AS ready
     FROM ops.matter_frame_jobs q
    WHERE q.run_status = 'queued' AND q.firm_id >= coalesce(@only::uuid, '00000000-0000-0000-0000-000000000000')
      AND q.queued_at >= coalesce(@queued_since::timestamptz, '-infinity')
    ORDER BY q.firm_id, q.priority, q.queued_at LIMIT 1)
  UNION ALL
  SELECT n.firm_id, n.ready
    FROM firms f CROSS JOIN LATERAL (
      SELECT q.firm_id, q.not_before <= clock_timestamp() AND q.bucket <> ALL ((SELECT away FROM fence)::smallint[]) AS ready
        FROM ops.matter_frame_jobs q
       WHERE q.run_status = 'queued' AND q.firm_id > f.firm_id
         AND q.queued_at >= coalesce(@queued_since::timestamptz, '-infinity')
       ORDER BY q.firm_id, q.priority, q.queued_at LIMIT 1) n
   WHERE @only::uuid IS NULL
), candidates AS (
  SELECT u.firm_id, sum(u.running) AS running, bool_or(u.ready) AS ready
    FROM (SELECT firm_id, 0 AS running, ready FROM firms
          UNION ALL
          SELECT firm_id, 0, ready FROM older
          UNION ALL
          SELECT firm_id, 1, NULL FROM ops.matter_frame_jobs
           WHERE run_status = 'running' AND claimed_at >= coalesce(@claimed_since::timestamptz, '-infinity')
          UNION ALL
          SELECT firm_id, 1, NULL FROM unnest(@running::uuid[]) AS b (firm_id)) u
   GROUP BY u.firm_id
), placed AS (
  SELECT c.firm_id, c.running, rank() OVER (ORDER BY c.running) AS place
    FROM candidates c
   WHERE c.ready IS NOT NULL -- is queued
     AND (@only::uuid IS NULL OR c.firm_id = @only) AND (@per_firm::bigint = 0 OR c.running < @per_firm)
     AND NOT EXISTS (SELECT 1 FROM ops.dispatch_pauses p WHERE p.firm_id IS NULL)
     AND NOT EXISTS (SELECT 1 FROM ops.dispatch_pauses p WHERE p.firm_id = c.firm_id)
     AND (c.ready OR EXISTS (SELECT 1 FROM generate_series(0, 2) AS p (priority) CROSS JOIN LATERAL (
           SELECT q.not_before, q.bucket FROM ops.matter_frame_jobs q
            WHERE q.run_status = 'queued' AND q.firm_id = c.firm_id AND q.priority = p.priority
              AND q.queued_at >= coalesce(@queued_since::timestamptz, '-infinity')
            ORDER BY q.queued_at LIMIT @scan::bigint) s
          WHERE s.not_before <= clock_timestamp() AND s.bucket <> ALL ((SELECT away FROM fence)::smallint[])))
), first_firms AS (
  SELECT f.firm_id, f.running, {last_claim} AS last_claim
    FROM placed f WHERE f.place <= 4 * @slots::bigint + 4
   ORDER BY f.running, last_claim NULLS FIRST, f.firm_id
   LIMIT 4 * @slots::bigint + 4
), ready AS (
  SELECT c.firm_id, r.version, c.running + r.nth AS rank, c.last_claim, r.priority, r.queued_at
    FROM first_firms c CROSS JOIN LATERAL (
      SELECT s.version, s.priority, s.queued_at, row_number() OVER (ORDER BY s.priority, s.queued_at) AS nth FROM (
        SELECT s.* FROM generate_series(0, 2) AS p (priority) CROSS JOIN LATERAL (
          SELECT h.version, h.priority, h.queued_at FROM (
            SELECT q.ctid AS version, q.priority, q.queued_at, q.not_before, q.bucket FROM ops.matter_frame_jobs q
             WHERE q.run_status = 'queued' AND q.firm_id = c.firm_id AND q.priority = p.priority
               AND q.queued_at >= coalesce(@queued_since::timestamptz, '-infinity')
             ORDER BY q.queued_at LIMIT @scan::bigint) h
           WHERE h.not_before <= clock_timestamp() AND h.bucket <> ALL ((SELECT away FROM fence)::smallint[])
           ORDER BY h.queued_at LIMIT @slots::bigint + 16) s
        UNION ALL
        SELECT o.version, o.priority, o.queued_at FROM older o WHERE o.firm_id = c.firm_id AND o.ready) s
       ORDER BY s.priority, s.queued_at LIMIT @slots::bigint + 16) r
   WHERE @per_firm::bigint = 0 OR c.running + r.nth <= @per_firm
), picked AS (
  SELECT r.version, j.firm_id, j.matter_id, j.requested_generation
    FROM (SELECT * FROM ready ORDER BY rank, last_claim NULLS FIRST, firm_id, priority, queued_at) r
   CROSS JOIN LATERAL (
      SELECT j.firm_id, j.matter_id, j.requested_generation FROM ops.matter_frame_jobs j
       WHERE j.ctid = r.version AND j.not_before <= clock_timestamp()
         -- not in the words of the queue's index, which would be read from its start
         AND j.run_status || '' = 'queued'
       LIMIT 1 FOR UPDATE SKIP LOCKED) j
   LIMIT least(@slots::bigint, CASE WHEN @total::bigint = 0 THEN @slots::bigint
     ELSE greatest(0, @total - (SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'running')) END)
), claimed AS (
  UPDATE ops.matter_frame_jobs j
     SET run_status = 'running', requested_generation = n.generation, claimed_generation = n.generation,
         run_id = (@runs::uuid[])[n.i], claimed_at = clock_timestamp(), lease_expires_at = clock_timestamp() + @lease::interval,
         attempts = j.attempts + 1, authority_epoch = greatest(j.authority_epoch, ops.authority_epoch(j.bucket))
    -- a rewound row restarts above its runs, and so never poisons its batch
    FROM (SELECT p.i, p.version, greatest(p.requested_generation, coalesce({highest}, 0)) + 1 AS generation
            FROM (SELECT array_agg(version) AS versions, array_agg(firm_id) AS firms, array_agg(matter_id) AS matters,
                         array_agg(requested_generation) AS requested FROM picked) a,
                 unnest(a.versions, a.firms, a.matters, a.requested) WITH ORDINALITY AS p (version, firm_id, matter_id, requested_generation, i)) n
   WHERE j.ctid = n.version
  RETURNING j.firm_id, j.matter_id, j.claimed_generation AS generation, j.run_id, j.attempts, j.demands_owed,
            j.landed_generation, j.owed_since, j.priority, j.authority_epoch
)`

// DispatchLockSQL serialises claims while a limit is set: counting what runs and
// adding to it must not interleave. It is a statement of its own, before the pick,
// so that the pick's snapshot is taken once the lock is held.
const DispatchLockSQL = `SELECT pg_advisory_xact_lock(hashtextextended('ops.dispatch', 0))`

// ClaimKeyCTE is the claim of one named matter, ending in "claimed": at most one
// row. It takes a job that is absent, idle, queued (settling or backing off
// included) or running past its lease; it passes per_firm and settle and honours
// pauses. highest is as in ClaimCTE, over (j.firm_id, j.matter_id).
//
// Named arguments: @firm, @matter, @lease, @priority, @runs (one fresh run id).
func ClaimKeyCTE(highest string) string {
	return strings.ReplaceAll(claimKeyCTE, "{highest}", highest)
}

const claimKeyCTE = `
WITH claimed AS (
  INSERT INTO ops.matter_frame_jobs AS j
    (firm_id, matter_id, run_status, requested_generation, claimed_generation, run_id, claimed_at, lease_expires_at,
     attempts, owed_since, priority, authority_epoch)
  SELECT @firm::uuid, @matter::uuid, 'running', 1, 1, (@runs::uuid[])[1], t.now, t.now + @lease::interval, 1, t.now, @priority::smallint,
         coalesce(ops.authority_epoch(ops.matter_bucket(@matter::uuid)), 1)
    FROM (SELECT clock_timestamp() AS now) t
   WHERE NOT EXISTS (SELECT 1 FROM ops.dispatch_pauses p WHERE p.firm_id IS NULL OR p.firm_id = @firm::uuid)
     AND ops.scope_writer_is_rail(ops.matter_bucket(@matter::uuid))
  ON CONFLICT (firm_id, matter_id) DO UPDATE SET
    run_status = 'running',
    requested_generation = greatest(j.requested_generation, coalesce({highest}, 0)) + 1,
    claimed_generation = greatest(j.requested_generation, coalesce({highest}, 0)) + 1,
    run_id = (@runs::uuid[])[1], claimed_at = clock_timestamp(), lease_expires_at = clock_timestamp() + @lease::interval,
    attempts = j.attempts + 1, authority_epoch = greatest(j.authority_epoch, EXCLUDED.authority_epoch), owed_since = coalesce(j.owed_since, clock_timestamp()),
    priority = least(EXCLUDED.priority, j.priority, j.rebuild_priority),
    rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL
  WHERE j.run_status IN ('idle', 'queued') OR (j.run_status = 'running' AND j.lease_expires_at <= clock_timestamp())
  RETURNING j.firm_id, j.matter_id, j.claimed_generation AS generation, j.run_id, j.attempts, j.demands_owed,
            j.landed_generation, j.owed_since, j.priority, j.authority_epoch
)`

// nextDueSQL looks at the heads of the queue only: it sets a timer, and a timer
// that is missing costs one idle pause.
const nextDueSQL = `
SELECT coalesce(extract(epoch FROM min(q.not_before) - clock_timestamp()), 0)::float8
  FROM (SELECT not_before FROM ops.matter_frame_jobs
         WHERE run_status = 'queued' AND queued_at >= coalesce($1::timestamptz, '-infinity')
         ORDER BY firm_id, priority, queued_at LIMIT 256) q
 WHERE q.not_before > clock_timestamp()`

// NextDue tells how long until the first queued row that still waits is due; zero
// where none is known to wait.
func NextDue(ctx context.Context, db pg.DB, r Reach) (time.Duration, error) {
	var seconds float64
	if err := db.QueryRow(ctx, nextDueSQL, r.queued()).Scan(&seconds); err != nil {
		return 0, fmt.Errorf("jobs.NextDue: %w", err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
