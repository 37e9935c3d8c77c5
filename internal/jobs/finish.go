package jobs

// The ends of a claim, as common table expressions. Each starts by locking the row
// under the token, so a zombie is refused before it writes anything, and the
// instants after it are read when the row is won. Named arguments of all:
// @firm, @matter, @generation, @run.

// heldCTE: zero rows mean that the token is no longer the one being served.
const heldCTE = `
WITH held AS (
  SELECT j.* FROM ops.matter_frame_jobs j
   WHERE j.firm_id = @firm::uuid AND j.matter_id = @matter::uuid
     AND j.run_status = 'running' AND j.claimed_generation = @generation::bigint AND j.run_id = @run::uuid
     FOR UPDATE
)`

// admittedCTE is heldCTE for a landing: the epoch that the claim was made under must
// still be allowed to write. The database judges that again at the commit.
const admittedCTE = `
WITH admitted AS MATERIALIZED (
  SELECT ops.fence_check(j.bucket, j.authority_epoch) AS yes FROM ops.matter_frame_jobs j
   WHERE j.firm_id = @firm::uuid AND j.matter_id = @matter::uuid
), held AS (
  SELECT j.* FROM ops.matter_frame_jobs j
   WHERE (SELECT yes FROM admitted) AND j.firm_id = @firm::uuid AND j.matter_id = @matter::uuid
     AND j.run_status = 'running' AND j.claimed_generation = @generation::bigint AND j.run_id = @run::uuid
     FOR UPDATE
)`

// LandCTE ends in "landed" (firm_id, matter_id, generation, run_id,
// authority_epoch, owed_since, run_status): the flag is cleared and the follow-up
// queued in this very statement, so no demand can fall between. More argument:
// @quiet, the settle time of the follow-up.
const LandCTE = admittedCTE + `, landed AS (
  UPDATE ops.matter_frame_jobs j
     SET landed_generation = h.claimed_generation,
         run_status = CASE WHEN h.rebuild_needed THEN 'queued' ELSE 'idle' END,
         run_id = NULL, claimed_at = NULL, lease_expires_at = NULL, attempts = 0, last_error = NULL,
         -- only demand moves requested while a claim is live
         demands_owed = h.requested_generation - h.claimed_generation,
         owed_since = h.rebuild_since, queued_at = h.rebuild_since,
         not_before = CASE WHEN h.rebuild_priority = 0 THEN clock_timestamp()
                           ELSE greatest(clock_timestamp(), h.rebuild_since + @quiet::interval) END,
         priority = coalesce(h.rebuild_priority, 2),
         rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL
    FROM held h
   WHERE j.firm_id = h.firm_id AND j.matter_id = h.matter_id
  RETURNING j.firm_id, j.matter_id, j.landed_generation AS generation, h.run_id, j.authority_epoch, h.owed_since, j.run_status
)`

// backoff is full jitter below a doubling bound, and never under what the builder
// asked for. The table refuses more than a day, and one refused row would stop the
// sweep of all.
const backoff = `least(interval '1 day', greatest(@retry_after::interval,
           least(@backoff_max::interval, @backoff::interval * power(2, least(h.attempts - 1, 30))) * random()))`

// unsuccessful is what every end without a landing does to the row: demand stays
// visible, the marks of the rebuild fold into the row.
const unsuccessful = `run_id = NULL, claimed_at = NULL, lease_expires_at = NULL,
         priority = least(h.priority, h.rebuild_priority), queued_at = clock_timestamp(),
         rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL`

// failSet parks when the attempts are used up or the error is permanent, unless
// demand came meanwhile: a corrected document must not wait for a person. A parked
// row keeps the backoff's end in not_before for the demand that revives it.
const failSet = unsuccessful + `,
         run_status = CASE WHEN h.parks THEN 'parked' ELSE 'queued' END,
         parked_by = CASE WHEN h.parks THEN 'failures' END,
         parked_reason = CASE WHEN h.parks THEN @error::text END,
         not_before = clock_timestamp() + ` + backoff + `,
         last_error = @error::text`

const parks = `NOT h.rebuild_needed AND (@permanent::boolean OR h.attempts >= @max_attempts::integer) AS parks`

// FailCTE ends in "failed" (firm_id, matter_id, generation, run_id, run_status,
// attempts, not_before). More arguments: @error (text), @permanent, @max_attempts,
// @backoff, @backoff_max, @retry_after.
const FailCTE = heldCTE + `, failed AS (
  UPDATE ops.matter_frame_jobs j
     SET ` + failSet + `
    FROM (SELECT h.*, ` + parks + ` FROM held h) h
   WHERE j.firm_id = h.firm_id AND j.matter_id = h.matter_id
  RETURNING j.firm_id, j.matter_id, h.claimed_generation AS generation, h.run_id, j.run_status, j.attempts, j.not_before
)`

// ReleaseCTE hands a claim back without charging its attempt, ending in
// "released" (columns as "failed"). More argument: @delay, for when the builder
// and not the matter is at fault.
const ReleaseCTE = heldCTE + `, released AS (
  UPDATE ops.matter_frame_jobs j
     SET ` + unsuccessful + `,
         run_status = 'queued', attempts = h.attempts - 1, not_before = clock_timestamp() + @delay::interval
    FROM held h
   WHERE j.firm_id = h.firm_id AND j.matter_id = h.matter_id
  RETURNING j.firm_id, j.matter_id, h.claimed_generation AS generation, h.run_id, j.run_status, j.attempts, j.not_before
)`

// ExpireCTE fails the claims whose lease ran out, ending in "failed" (columns as
// in FailCTE). One statement picks and writes, so a claim that landed or was taken
// over meanwhile is not touched; rows that somebody holds are left for the next
// round, and so is a claim that is younger than the statement: its run cannot be seen
// here, and so not closed. Arguments: @batch, @live_since (an instant before which no
// running claim was made, null for none known) and those of FailCTE without a token.
const ExpireCTE = `
WITH silent AS MATERIALIZED (
  SELECT firm_id, matter_id, run_id FROM ops.matter_frame_jobs
   WHERE run_status = 'running' AND lease_expires_at <= clock_timestamp()
     AND claimed_at >= coalesce(@live_since::timestamptz, '-infinity')
), due AS (
  SELECT j.* FROM silent s JOIN ops.matter_frame_jobs j ON j.firm_id = s.firm_id AND j.matter_id = s.matter_id AND j.run_id = s.run_id
   WHERE j.run_status = 'running' AND j.lease_expires_at <= clock_timestamp()
   ORDER BY j.firm_id, j.matter_id LIMIT @batch::bigint
     FOR UPDATE OF j SKIP LOCKED
), failed AS (
  UPDATE ops.matter_frame_jobs j
     SET ` + failSet + `
    FROM (SELECT h.*, ` + parks + ` FROM due h) h
   WHERE j.firm_id = h.firm_id AND j.matter_id = h.matter_id
  RETURNING j.firm_id, j.matter_id, h.claimed_generation AS generation, h.run_id, j.run_status, j.attempts, j.not_before
)`
