package audit

// invariant is one property of the ledger, as the rows that break it.
type invariant struct {
	name   string
	says   string // the property, in words
	advice string // what to do when it is broken
	// recent asks of the last @window only, and is empty where that cannot be; whole
	// asks of everything, and is empty where recent does already. Each selects id and
	// note (text, null for none) of every row that breaks the property; or, where it
	// does not begin with SELECT, computes the answer.
	recent, whole string
}

func invariants() []invariant {
	return []invariant{
		{
			name: "one_frame_per_landing", says: "every landed generation has its frame",
			advice: "a frame went other than by retention: restore it or demand the matter again, and find out who deletes",
			recent: landedWithoutFrame, whole: landedWithoutFrameWhole,
		},
		{
			name: "frame_without_landed_run", says: "every frame of the rail comes from a run that landed it",
			advice: "a frame came in other than by a landing: demand the matter again, and find out who writes",
			recent: frameWithoutRun, whole: frameWithoutRunWhole,
		},
		{
			name: "stuck_running", says: "no claim outlives its lease by long",
			advice: "nobody sweeps: is any worker running, can it write? `railctl matter cancel` frees one by hand",
			recent: stuckRunning,
		},
		{
			name: "forgotten_queued", says: "nothing ready to build is passed over without a pause",
			advice: "no worker claims for this firm: are workers running, is their builder paused, is a limit zero?",
			recent: forgottenQueued,
		},
		{
			name: "outcome_changed", says: "an ended run keeps its outcome",
			advice: "somebody tries to rewrite history: look for constraint runs_outcome_is_final in the server's log",
			recent: outcomeChanged,
		},
		{
			name: "undecided_facts", says: "every fact older than the bound has its receipt",
			advice: "the trigger does not run or not keep up; facts that are on no list are decided after `railctl epoch bump --since`",
			recent: undecidedFacts, whole: undecidedFactsWhole,
		},
		{
			name: "receipts_without_fact", says: "every young receipt has its fact",
			advice: "a fact went other than by retention, or the ledger was rewound: see `railctl doctor`",
			recent: receiptsWithoutFact,
		},
		{
			name: "counts_conserved", says: "landed runs kept and taken are as many as frames kept and taken",
			advice: "rows came or went behind the back of landing and retention: find out who writes",
			whole:  countsConserved,
		},
		{
			name: "retired_paths", says: "a retired writer can write by none of its ways",
			advice: "take the right, route, script or job away that is named; every try of it is in `railctl authority`'s evidence",
			recent: retiredPaths,
		},
	}
}

// A run that landed and has no frame is sound only where retention took the frame:
// it takes a matter's oldest, so that every frame of the matter which is left is of
// a later generation, and it always leaves one. OFFSET 0 keeps the planner from
// asking for those of every run.
const landedWithoutFrame = `
SELECT r.firm_id || '/' || r.matter_id AS id, NULL AS note
  FROM (SELECT r.firm_id, r.matter_id, r.generation
          FROM ops.matter_frame_runs r
         WHERE r.outcome = 'landed' AND r.started_at > statement_timestamp() - @window::interval
           AND NOT EXISTS (SELECT 1 FROM ops.matter_frames f WHERE f.run_id = r.run_id)
        OFFSET 0) r
 WHERE r.generation > coalesce((SELECT min(f.generation) FROM ops.matter_frames f
                                 WHERE f.firm_id = r.firm_id AND f.matter_id = r.matter_id), 0)`

// Over everything the same by joins, and of each matter that its newest frame is
// the landed one: readers rely on it.
const landedWithoutFrameWhole = `
SELECT r.firm_id || '/' || r.matter_id AS id, NULL AS note
  FROM ops.matter_frame_runs r
  LEFT JOIN (SELECT firm_id, matter_id, min(generation) AS oldest FROM ops.matter_frames GROUP BY firm_id, matter_id) k
    ON k.firm_id = r.firm_id AND k.matter_id = r.matter_id
 WHERE r.outcome = 'landed' AND r.generation > coalesce(k.oldest, 0)
   AND NOT EXISTS (SELECT 1 FROM ops.matter_frames f WHERE f.run_id = r.run_id)
UNION
SELECT coalesce(j.firm_id, k.firm_id) || '/' || coalesce(j.matter_id, k.matter_id), NULL
  FROM ops.matter_frame_jobs j
  FULL JOIN (SELECT firm_id, matter_id, max(generation) AS newest FROM ops.matter_frames GROUP BY firm_id, matter_id) k
    ON k.firm_id = j.firm_id AND k.matter_id = j.matter_id
 WHERE coalesce(j.landed_generation, 0) <> coalesce(k.newest, 0)`

// Recent frames are reached through their runs; one whose run is gone is found by
// the whole check only.
const frameWithoutRun = `
SELECT f.firm_id || '/' || f.matter_id AS id, NULL AS note
  FROM ops.matter_frame_runs r JOIN ops.matter_frames f ON f.run_id = r.run_id
 WHERE r.started_at > statement_timestamp() - @window::interval
   AND (r.outcome, r.generation, r.firm_id, r.matter_id) IS DISTINCT FROM ('landed', f.generation, f.firm_id, f.matter_id)`

const frameWithoutRunWhole = `
SELECT f.firm_id || '/' || f.matter_id AS id, NULL AS note
  FROM ops.matter_frames f
 WHERE f.source = 'rail'
   AND NOT EXISTS (SELECT 1 FROM ops.matter_frame_runs r
                    WHERE r.run_id = f.run_id AND r.outcome = 'landed' AND r.generation = f.generation
                      AND r.firm_id = f.firm_id AND r.matter_id = f.matter_id)`

const stuckRunning = `
SELECT j.firm_id || '/' || j.matter_id AS id, NULL AS note
  FROM ops.matter_frame_jobs j
 WHERE j.run_status = 'running' AND j.lease_expires_at < statement_timestamp() - @stuck::interval`

// A resume ends a pause without leaving a row of it; the audit log has when.
const forgottenQueued = `
SELECT q.firm_id || '/' || q.matter_id AS id, NULL AS note
  FROM (SELECT j.firm_id, j.matter_id, greatest(j.not_before, j.queued_at) AS ready
          FROM ops.matter_frame_jobs j
         WHERE j.run_status = 'queued' AND j.not_before < statement_timestamp() - @forgotten::interval
           AND j.bucket <> ALL ((SELECT ops.buckets_elsewhere())::smallint[])) q
  JOIN (SELECT d.firm_id,
               (SELECT max(r.started_at) FROM ops.matter_frame_runs r WHERE r.firm_id = d.firm_id) AS claimed,
               (SELECT max(a.at) FROM ops.audit_log a
                 WHERE a.action = 'dispatch.resume' AND a.target IN (d.firm_id::text, 'all')) AS resumed
          FROM (SELECT DISTINCT firm_id FROM ops.matter_frame_jobs WHERE run_status = 'queued') d
         WHERE NOT EXISTS (SELECT 1 FROM ops.dispatch_pauses p WHERE p.firm_id IS NULL OR p.firm_id = d.firm_id)) f
    ON f.firm_id = q.firm_id
 WHERE greatest(q.ready, f.resumed) < statement_timestamp() - @forgotten::interval
   AND (f.claimed IS NULL OR f.claimed < greatest(q.ready, f.resumed))`

// After a crash of the server the sequence may have skipped up to 32 numbers, if it
// had ever been used: a rise by one is exact, a rise by more may be that.
const outcomeChanged = `
WITH n AS (SELECT last_value AS ever FROM ops.run_outcome_refusals)
SELECT greatest(0, ever - coalesce(@refusals::bigint, ever)), '{}'::text[], ever || ' tries refused since the ledger was made' FROM n`

// Asked of the facts themselves, not of the list of the undecided alone: a fact
// that fell off that list would never be looked at again.
const undecidedFactsWhole = `
SELECT o.event_id::text AS id,
       CASE WHEN NOT EXISTS (SELECT 1 FROM ops.outbox_undecided u WHERE u.seq = o.seq)
            THEN 'some of them are on no list and will not be decided by themselves' END AS note
  FROM ops.domain_event_outbox o
 WHERE o.recorded_at < statement_timestamp() - @undecided::interval
   AND NOT EXISTS (SELECT 1 FROM ops.trigger_receipts r WHERE r.event_id = o.event_id)`

// Facts from before the window are asked through the list.
const undecidedFacts = undecidedFactsWhole + `
   AND o.recorded_at > statement_timestamp() - @undecided::interval - @window::interval
UNION ALL
SELECT u.event_id::text, NULL
  FROM ops.outbox_undecided u
 WHERE u.recorded_at <= statement_timestamp() - @undecided::interval - @window::interval
   AND NOT EXISTS (SELECT 1 FROM ops.trigger_receipts r WHERE r.event_id = u.event_id)`

// Retention leaves a fact alone until its receipt is an hour old, so that a
// younger receipt must have its fact.
const receiptsWithoutFact = `
SELECT r.event_id::text AS id, NULL AS note
  FROM ops.trigger_receipts r
 WHERE r.decided_at > statement_timestamp() - interval '55 minutes'
   AND NOT EXISTS (SELECT 1 FROM ops.domain_event_outbox o WHERE o.event_id = r.event_id)`

// What the last try of each way found.
const retiredPaths = `
SELECT p.writer || ' ' || p.kind || ' ' || p.path AS id, p.answer AS note FROM ops.writer_paths p WHERE NOT p.refused`

const countsConserved = `
WITH n AS (
  SELECT (SELECT count(*) FROM ops.matter_frame_runs WHERE outcome = 'landed') AS runs,
         (SELECT count(*) FROM ops.matter_frames) AS frames,
         (SELECT taken FROM ops.retention_counters WHERE what = 'landed_runs') AS runs_taken,
         (SELECT taken FROM ops.retention_counters WHERE what = 'frames') AS frames_taken)
SELECT abs(runs + runs_taken - frames - frames_taken), '{}'::text[],
       format('landed runs %s kept and %s taken, frames %s kept and %s taken', runs, runs_taken, frames, frames_taken)
  FROM n`
