package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// An attack is one thing that nobody may do, by raw SQL in one transaction, with the
// name under which it is refused; no name means that it is legal.
type attack struct {
	name    string
	from    state
	sql     string
	refused string
}

func set(column string) string { return "UPDATE ops.matter_frame_jobs SET " + column + " WHERE {job};" }

func bend(sql, old, new string) string {
	if !strings.Contains(sql, old) {
		panic("nothing to bend: " + old)
	}
	return strings.ReplaceAll(sql, old, new)
}

const bornJob = `INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status, requested_generation, claimed_generation, landed_generation,
  attempts, owed_since, queued_at, not_before, run_id, claimed_at, lease_expires_at, parked_by, parked_reason) VALUES ({firm}, {matter}, `

func jobAttacks() []attack {
	now := `clock_timestamp()`
	return []attack{
		// controls: the pieces that the others bend are legal by themselves
		{"claim by hand", queued, claimJob + openRun, ""},
		{"claim an idle job by hand", idle, claimJob + openRun, ""},
		{"take over by hand", lapsed, claimJob + openRun, ""},
		{"land by hand", running, landJob + addFrame + closeRun, ""},
		{"leave by hand", running, leaveJob + failRun, ""},
		{"born queued", none, bornJob + `'queued', 3, 0, 0, 0, now(), now(), now(), NULL, NULL, NULL, NULL, NULL)`, ""},
		{"born idle", none, bornJob + `'idle', 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`, ""},
		{"land with a follow-up by hand", rebuilding, followUp + addFrame + closeRun, ""},
		// a server's clock that is set back, or a promoted one's that is behind
		{"renew after the clock went back", running, unguarded + set(`claimed_at = now() + interval '1 hour', owed_since = now() + interval '1 hour'`) + guarded +
			set(`lease_expires_at = clock_timestamp() + interval '1 minute'`), ""},
		{"land after the clock went back", rebuilding, unguarded + set(`claimed_at = now() + interval '1 hour', rebuild_since = now() + interval '1 hour'`) + guarded +
			followUp + addFrame + closeRun, ""},
		{"age by hand", queued, set(`owed_since = owed_since - interval '1 hour'`), ""},

		{"owed since before any year", queued, set(`owed_since = '4713-11-24 BC'`), "jobs_times_have_a_year"},
		{"more demand than can be counted", queued, set(`requested_generation = 9223372036854775807`), "jobs_demand_can_be_counted"},
		{"born with more demand than can be counted", none, bornJob + `'queued', 9223372036854775807, 0, 0, 0, now(), now(), now(), NULL, NULL, NULL, NULL, NULL)`, "jobs_demand_can_be_counted"},
		{"unknown status", queued, set(`run_status = 'done'`), "jobs_status"},
		{"fewer attempts than none", queued, unguarded + set(`attempts = -1`), "jobs_attempts_not_negative"},
		{"more demands than generations", queued, set(`demands_owed = 9`), "jobs_demands_within_generations"},
		{"unknown urgency", queued, set(`priority = 3`), "jobs_priority"},
		{"unknown urgency of a rebuild", rebuilding, set(`rebuild_priority = 3`), "jobs_rebuild_priority"},
		{"parked by nobody known", parkedByOperator, set(`parked_by = 'ghost'`), "jobs_parked_by"},
		{"landed beyond claimed", running, unguarded + set(`landed_generation = claimed_generation + 1, demands_owed = 0, requested_generation = claimed_generation + 1`), "jobs_generations_in_order"},
		{"claimed beyond requested", running, unguarded + set(`claimed_generation = requested_generation + 1`), "jobs_generations_in_order"},
		{"idle with demand", queued, set(`run_status = 'idle', owed_since = NULL`), "jobs_idle_owes_nothing"},
		{"demand on an idle row that stays idle", idle, set(`requested_generation = requested_generation + 1`), "jobs_idle_owes_nothing"},
		{"owed since never", queued, set(`owed_since = NULL`), "jobs_owed_since_unless_idle"},
		{"owed since before time", queued, set(`owed_since = '-infinity'`), "jobs_owed_since_unless_idle"},
		{"idle and owed", idle, set(`owed_since = now()`), "jobs_owed_since_unless_idle"},
		{"running without a lease", running, set(`lease_expires_at = NULL`), "jobs_claim_is_whole"},
		{"running without a claim time", running, set(`claimed_at = NULL`), "jobs_claim_is_whole"},
		{"running without a run", running, set(`run_id = NULL`), "jobs_claim_is_whole"},
		{"a lease that ended before time", running, set(`lease_expires_at = '-infinity'`), "jobs_claim_is_whole"},
		{"queued with a lease", queued, set(`lease_expires_at = now()`), "jobs_claim_is_whole"},
		{"out of running with its claim", running, set(`run_status = 'queued', queued_at = now(), not_before = now()`), "jobs_claim_is_whole"},
		{"running what has landed", idle, unguarded + set(`run_status = 'running', run_id = {new}, claimed_at = now(), lease_expires_at = now(),
			requested_generation = requested_generation + 1, owed_since = now(), rebuild_needed = true, rebuild_since = now(), rebuild_priority = 1`), "jobs_running_token_not_landed"},
		{"demand beside a build without the flag", running, set(`requested_generation = requested_generation + 1`), "jobs_rebuild_is_unclaimed_demand"},
		{"the flag dropped", rebuilding, set(`rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL`), "jobs_rebuild_is_unclaimed_demand"},
		{"the flag without its time", rebuilding, set(`rebuild_since = NULL`), "jobs_rebuild_is_unclaimed_demand"},
		{"the flag without its urgency", rebuilding, set(`rebuild_priority = NULL`), "jobs_rebuild_is_unclaimed_demand"},
		{"the flag without demand", running, set(`rebuild_needed = true, rebuild_since = now(), rebuild_priority = 1`), "jobs_rebuild_is_unclaimed_demand"},
		{"the flag on a queued row", queued, set(`rebuild_needed = true, rebuild_since = now(), rebuild_priority = 1`), "jobs_rebuild_is_unclaimed_demand"},
		{"queued since never", queued, set(`queued_at = NULL`), "jobs_queued_has_its_times"},
		{"queued for no time", queued, set(`not_before = NULL`), "jobs_queued_has_its_times"},
		{"queued before time", queued, set(`not_before = '-infinity'`), "jobs_queued_has_its_times"},
		{"parked without a reason", queued, set(`run_status = 'parked', parked_by = 'operator'`), "jobs_parked_says_why"},
		{"queued with a park's reason", queued, set(`parked_by = 'operator', parked_reason = 'x'`), "jobs_parked_says_why"},

		{"born landed", none, bornJob + `'idle', 1, 1, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`, "jobs_born_with_nothing_landed"},
		{"born claimed as 2", none, bornJob + `'running', 2, 2, 0, 2, now(), NULL, NULL, {new}, now(), now(), NULL, NULL)`, "jobs_born_with_nothing_landed"},
		{"born claimed with more demand", none, bornJob + `'running', 2, 1, 0, 1, now(), NULL, NULL, {new}, now(), now(), NULL, NULL)`, "jobs_born_with_nothing_landed"},
		{"born claimed but queued", none, bornJob + `'queued', 1, 1, 0, 1, now(), now(), now(), NULL, NULL, NULL, NULL, NULL)`, "jobs_born_with_nothing_landed"},
		{"born with attempts", none, bornJob + `'queued', 1, 0, 0, 3, now(), now(), now(), NULL, NULL, NULL, NULL, NULL)`, "jobs_attempt_counted_at_claim"},
		{"born claimed for nothing", none, bornJob + `'running', 1, 1, 0, 0, now(), NULL, NULL, {new}, now(), now(), NULL, NULL)`, "jobs_attempt_counted_at_claim"},
		{"born parked", none, bornJob + `'parked', 1, 0, 0, 0, now(), NULL, NULL, NULL, NULL, NULL, 'operator', 'x')`, "jobs_transition"},
		{"born ahead of time", none, bornJob + `'queued', 1, 0, 0, 0, now(), now() + interval '1 hour', now(), NULL, NULL, NULL, NULL, NULL)`, "jobs_times_are_possible"},
		{"born claimed without a run", none, bornJob + `'running', 1, 1, 0, 1, now(), NULL, NULL, {new}, now(), now(), NULL, NULL)`, "jobs_claim_has_its_run"},

		{"another firm", queued, set(`firm_id = {new}`), "jobs_key_is_fixed"},
		{"another matter", queued, set(`matter_id = {new}`), "jobs_key_is_fixed"},
		{"requested back", requeued, set(`requested_generation = requested_generation - 1`), "jobs_generations_never_decrease"},
		{"claimed back", requeued, set(`claimed_generation = claimed_generation - 1`), "jobs_generations_never_decrease"},
		{"landed back", idle, set(`landed_generation = 0`), "jobs_generations_never_decrease"},
		{"land a claim that was given up", requeued, set(`landed_generation = claimed_generation, run_status = 'idle', owed_since = NULL`), "jobs_landing_is_of_the_live_token"},
		{"land more than the token", rebuilding, bend(landJob, `landed_generation = claimed_generation`, `landed_generation = requested_generation, rebuild_needed = false`), "jobs_landing_is_of_the_live_token"},
		{"land and stay running", running, set(`landed_generation = claimed_generation`), "jobs_landing_is_of_the_live_token"},
		{"land and park", running, bend(landJob, `'idle'`, `'parked'`), "jobs_landing_is_of_the_live_token"},
		{"land over demand", rebuilding, bend(landJob, `owed_since = NULL`, `owed_since = rebuild_since, rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL`), "jobs_idle_owes_nothing"},
		{"claim without a run id", queued, set(`claimed_generation = requested_generation`), "jobs_claim_brings_a_new_run"},
		{"a new number for the same run", rebuilding, set(`claimed_generation = requested_generation`), "jobs_claim_brings_a_new_run"},
		{"claim part of the demand", rebuilding, unguarded + set(`lease_expires_at = now() - interval '1 hour'`) + guarded +
			bend(claimJob, `requested_generation + 1,`+"\n"+`  claimed_generation = requested_generation + 1`, `requested_generation + 2, claimed_generation = claimed_generation + 1`), "jobs_claim_brings_a_new_run"},
		{"a new run for the same number", lapsed, set(`run_id = {new}`), "jobs_run_brings_a_new_token"},
		{"claim for nothing", queued, bend(claimJob, `attempts + 1`, `attempts`), "jobs_attempt_counted_at_claim"},
		{"claim for two", queued, bend(claimJob, `attempts + 1`, `attempts + 2`), "jobs_attempt_counted_at_claim"},
		{"attempts forgotten by hand", requeued, set(`attempts = 0`), "jobs_attempts_are_kept"},
		{"attempts of a live claim forgotten", running, set(`attempts = 0`), "jobs_attempts_are_kept"},
		{"attempts forgotten by a failure", running, bend(leaveJob, `run_id = NULL`, `attempts = attempts - 2, run_id = NULL`) + failRun, "jobs_attempts_are_kept"},
		{"a landing that keeps its attempts", running, bend(landJob, `attempts = 0`, `attempts = attempts`), "jobs_attempts_are_kept"},
		{"claim what a person parked", parkedByOperator, bend(claimJob, `rebuild_needed`, `parked_by = NULL, parked_reason = NULL, rebuild_needed`), "jobs_transition"},
		{"claim what failures parked", parkedByFailure, bend(claimJob, `rebuild_needed`, `parked_by = NULL, parked_reason = NULL, rebuild_needed`), "jobs_transition"},
		{"park what owes nothing", idle, set(`run_status = 'parked', parked_by = 'operator', parked_reason = 'x', requested_generation = requested_generation + 1, owed_since = now()`), "jobs_transition"},
		{"take a live claim over", running, claimJob + openRun, "jobs_takeover_needs_an_expired_lease"},

		{"claimed tomorrow", running, set(`claimed_at = now() + interval '1 day'`), "jobs_times_are_possible"},
		{"a lease for ever", running, set(`lease_expires_at = 'infinity'`), "jobs_times_are_possible"},
		{"wait for ever", queued, set(`not_before = 'infinity'`), "jobs_times_are_possible"},
		{"wait a month", queued, set(`not_before = now() + interval '30 days'`), "jobs_times_are_possible"},
		{"queued tomorrow", queued, set(`queued_at = now() + interval '1 day'`), "jobs_times_are_possible"},
		{"demand of tomorrow", rebuilding, set(`rebuild_since = now() + interval '1 day'`), "jobs_debt_is_kept"},
		{"owed since tomorrow", idle, set(`run_status = 'queued', requested_generation = requested_generation + 1, queued_at = now(), not_before = now(), owed_since = now() + interval '1 day'`), "jobs_times_are_possible"},
		{"a younger debt", queued, set(`owed_since = clock_timestamp()`), "jobs_debt_is_kept"},
		{"a younger rebuild", rebuilding, set(`rebuild_since = clock_timestamp()`), "jobs_debt_is_kept"},
		{"fewer demands", queued, set(`demands_owed = 0`), "jobs_debt_is_kept"},
		{"a landing that forgets how old its rest is", rebuilding, bend(bend(landJob, `owed_since = NULL`, `owed_since = `+now+`, rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL, queued_at = now(), not_before = now()`), `'idle'`, `'queued'`), "jobs_debt_is_kept"},
		{"authority back", queued, set(`authority_epoch = 0`), "jobs_authority_epoch_never_decreases"},

		{"a claim without its run", queued, claimJob, "jobs_claim_has_its_run"},
		{"a take-over without its run", lapsed, claimJob, "jobs_claim_has_its_run"},
		{"a landing without anything", running, landJob, "jobs_landing_has_its_frame"},
		{"a landing without its run", running, landJob + addFrame, "jobs_landing_has_its_frame"},
		{"a landing whose run failed", running, landJob + addFrame + failRun, "jobs_landing_has_its_frame"},
		{"a landing that only a savepoint saw framed", running, `BEGIN;` + landJob + `SAVEPOINT s;` + addFrame + closeRun + `ROLLBACK TO s; COMMIT;`, "jobs_landing_has_its_frame"},
		{"a claim left with its run open", running, leaveJob, "jobs_left_run_is_closed"},
		{"parked with its run open", running, bend(leaveJob, `'queued'`, `'parked', parked_by = 'operator', parked_reason = 'x'`), "jobs_left_run_is_closed"},

		{"delete a job", idle, `DELETE FROM ops.matter_frame_jobs WHERE {job}`, "jobs_stay"},
		{"delete no job at all", none, `DELETE FROM ops.matter_frame_jobs WHERE {job}`, "jobs_stay"},
		{"delete a job from a function of another name", idle, `CREATE FUNCTION pg_temp.prune() RETURNS void LANGUAGE plpgsql AS $f$ BEGIN DELETE FROM ops.matter_frame_jobs WHERE {job}; END $f$; SELECT pg_temp.prune()`, "jobs_stay"},
		{"delete a job in the name of retention", idle, `DO $f$ BEGIN DELETE FROM ops.matter_frame_jobs WHERE {job} /* PL/pgSQL function ops.prune(text) */; END $f$`, "jobs_stay"},
		{"delete a job in the name of retention, on a line of its own", idle, "DO $f$ BEGIN DELETE FROM ops.matter_frame_jobs WHERE {job} /*\n x ops.prune() */; END $f$", "jobs_stay"},
		{"empty the jobs", none, `TRUNCATE ops.matter_frame_jobs`, "jobs_stay"},
	}
}

func runAttacks() []attack {
	const other = `INSERT INTO ops.matter_frame_runs (run_id, firm_id, matter_id, generation, attempt, worker, builder) VALUES `
	return []attack{
		{"note a late write", requeued, `UPDATE ops.matter_frame_runs SET late_write_at = now() WHERE run_id = {run}`, ""},
		{"generation nought", none, unguarded + other + `({new}, {firm}, {matter}, 0, 1, 'w', 'b')`, "runs_generation_positive"},
		{"unknown outcome", running, `UPDATE ops.matter_frame_runs SET outcome = 'lost', finished_at = now() WHERE run_id = {run}`, "runs_outcome"},
		{"a long preview", running, `UPDATE ops.matter_frame_runs SET error_preview = convert_to(repeat('x', 2049), 'UTF8') WHERE run_id = {run}`, "runs_error_preview_is_short"},
		{"two runs of a generation", running, unguarded + other + `({new}, {firm}, {matter}, {generation}, 1, 'w', 'b')`, "runs_one_a_generation"},
		{"finished and running", running, `UPDATE ops.matter_frame_runs SET finished_at = now() WHERE run_id = {run}`, "runs_finished_unless_running"},
		{"ended and never finished", running, `UPDATE ops.matter_frame_runs SET outcome = 'failed' WHERE run_id = {run}`, "runs_finished_unless_running"},
		{"a late write of a live run", running, `UPDATE ops.matter_frame_runs SET late_write_at = now() WHERE run_id = {run}`, "runs_late_write_is_refused"},
		{"a late write of a landed run", idle, `UPDATE ops.matter_frame_runs SET late_write_at = now() WHERE run_id = {run}`, "runs_late_write_is_refused"},
		{"begun at no time", queued, claimJob + strings.NewReplacer(`builder)`, `builder, started_at)`, `'b' FROM`, `'b', 'infinity' FROM`).Replace(openRun), "runs_times_have_a_year"},
		{"a late write at no time", requeued, `UPDATE ops.matter_frame_runs SET late_write_at = 'infinity' WHERE run_id = {run}`, "runs_times_have_a_year"},
		{"born ended", queued, claimJob + strings.NewReplacer(`builder)`, `builder, outcome, finished_at)`, `'b' FROM`, `'b', 'failed', now() FROM`).Replace(openRun), "runs_born_running"},
		{"of no claim", queued, other + `({new}, {firm}, {matter}, 1, 1, 'w', 'b')`, "runs_belong_to_their_claim"},
		{"of no job", none, other + `({new}, {firm}, {matter}, 1, 1, 'w', 'b')`, "runs_belong_to_their_claim"},
		{"of a live claim under another id", running, other + `({new}, {firm}, {matter}, {generation}, 1, 'w', 'b')`, "runs_belong_to_their_claim"},
		{"of another generation", queued, claimJob + bend(openRun, `claimed_generation`, `claimed_generation + 1`), "runs_belong_to_their_claim"},
		{"of another attempt", queued, claimJob + bend(openRun, `attempts`, `attempts + 1`), "runs_belong_to_their_claim"},
		{"of another matter", queued, claimJob + bend(openRun, `firm_id, matter_id, claimed`, `firm_id, {new}::uuid, claimed`), "runs_belong_to_their_claim"},
		{"another key", running, `UPDATE ops.matter_frame_runs SET matter_id = {new} WHERE run_id = {run}`, "runs_key_is_fixed"},
		{"another generation later", running, `UPDATE ops.matter_frame_runs SET generation = generation + 1 WHERE run_id = {run}`, "runs_key_is_fixed"},
		{"another id", running, `UPDATE ops.matter_frame_runs SET run_id = {new} WHERE run_id = {run}`, "runs_key_is_fixed"},
		{"failed becomes expired", requeued, `UPDATE ops.matter_frame_runs SET outcome = 'expired' WHERE run_id = {run}`, "runs_outcome_is_final"},
		{"failed runs again", requeued, `UPDATE ops.matter_frame_runs SET outcome = 'running', finished_at = NULL WHERE run_id = {run}`, "runs_outcome_is_final"},
		{"landed becomes failed", idle, `UPDATE ops.matter_frame_runs SET outcome = 'failed' WHERE run_id = {run}`, "runs_outcome_is_final"},
		{"history is rewritten", requeued, `UPDATE ops.matter_frame_runs SET error_text = 'fine' WHERE run_id = {run}`, "runs_outcome_is_final"},
		{"an outcome hidden in a late write", requeued, `UPDATE ops.matter_frame_runs SET late_write_at = now(), outcome = 'fenced' WHERE run_id = {run}`, "runs_outcome_is_final"},
		{"two late writes", requeued, `UPDATE ops.matter_frame_runs SET late_write_at = now() WHERE run_id = {run}; UPDATE ops.matter_frame_runs SET late_write_at = now() + interval '1 second' WHERE run_id = {run}`, "runs_outcome_is_final"},
		{"landed without a frame", running, closeRun, "runs_landed_has_its_frame"},
		{"landed before its frame", running, landJob + closeRun + addFrame, "runs_landed_has_its_frame"},
		{"a run closed under its claim", running, failRun, "runs_end_with_their_claim"},
		{"a run fenced under its claim", rebuilding, bend(failRun, `failed`, `fenced`), "runs_end_with_their_claim"},
		{"delete a run", idle, `DELETE FROM ops.matter_frame_runs WHERE run_id = {run}`, "runs_stay"},
		{"empty the runs", none, `TRUNCATE ops.matter_frame_runs`, "runs_stay"},
	}
}

func frameAttacks() []attack {
	return []attack{
		{"a list", running, landJob + bend(addFrame, `'{}'`, `'[]'`) + closeRun, "frames_are_objects"},
		{"a JSON null", running, landJob + bend(addFrame, `'{}'`, `'null'`) + closeRun, "frames_are_objects"},
		{"a short digest", running, landJob + bend(addFrame, `sha256('x')`, `'\x00'`) + closeRun, "frames_digest_is_sha256"},
		{"an unknown source", running, landJob + bend(bend(addFrame, `run_id)`, `run_id, source)`), `{run})`, `{run}, 'fax')`) + closeRun, "frames_source"},
		{"built at no time", running, landJob + bend(bend(addFrame, `run_id)`, `run_id, built_at)`), `{run})`, `{run}, 'infinity')`) + closeRun, "frames_have_a_year"},
		{"an import without its number", running, landJob + bend(bend(addFrame, `run_id)`, `run_id, source)`), `{run})`, `{run}, 'import')`) + closeRun, "frames_sequence_of_imports"},
		{"two frames of a run", idle, unguarded + bend(addFrame, `{generation}`, `{generation} + 1`), "frames_one_a_run"},
		{"without a landing", running, addFrame, "frames_enter_with_their_landing"},
		{"before its landing", running, addFrame + landJob + closeRun, "frames_enter_with_their_landing"},
		{"after its landing's transaction", idle, addFrame, "frames_enter_with_their_landing"},
		{"of a landing that a savepoint took back", running, `BEGIN; SAVEPOINT s;` + landJob + `ROLLBACK TO s;` + addFrame + `COMMIT;`, "frames_enter_with_their_landing"},
		{"of another generation", running, landJob + bend(addFrame, `{generation}`, `{generation} + 1`) + closeRun, "frames_enter_with_their_landing"},
		{"of an older generation", running, landJob + bend(addFrame, `{generation}`, `{generation} - 1`) + closeRun, "frames_enter_with_their_landing"},
		{"of another matter", running, landJob + bend(addFrame, `{matter}`, `{new}`) + closeRun, "frames_enter_with_their_landing"},
		{"with a forged transaction", idle, set(`landed_xid = pg_current_xact_id()`) + addFrame, "frames_enter_with_their_landing"},
		{"of no run", running, landJob + bend(addFrame, `{run}`, `{new}`) + closeRun, "frames_come_from_their_run"},
		{"of a run that failed", running, landJob + failRun + addFrame, "frames_come_from_their_run"},
		{"change a frame", idle, `UPDATE ops.matter_frames SET frame = '{"a":2}' WHERE {job}`, "frames_never_change"},
		{"overwrite a frame", idle, strings.TrimSuffix(addFrame, ";") + ` ON CONFLICT (firm_id, matter_id, generation) DO UPDATE SET frame = '{"a":3}'`, "frames_never_change"},
		{"delete a frame", idle, `DELETE FROM ops.matter_frames WHERE {job}`, "frames_stay"},
		{"empty the frames", none, `TRUNCATE ops.matter_frames`, "frames_stay"},
	}
}

func factAttacks() []attack {
	const fact = `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name, occurred_at, attributes) VALUES ({firm}, {matter}, `
	const receipt = `INSERT INTO ops.trigger_receipts AS r (event_id, verdict, requested_generation) VALUES ({event}, `
	const again = ` ON CONFLICT (event_id) DO UPDATE SET verdict = EXCLUDED.verdict, decided_at = clock_timestamp() WHERE r.verdict <> 'demanded';`
	const settle = `DELETE FROM ops.outbox_undecided WHERE event_id = {event};`
	return []attack{
		{"publish", undecided, `UPDATE ops.domain_event_outbox SET published_at = now() WHERE event_id = {event}`, ""},
		{"a bad name", none, fact + `'Document.Uploaded', now(), NULL)`, "outbox_event_name_is_noun_verb"},
		{"no time", none, fact + `'document.uploaded', 'infinity', NULL)`, "outbox_occurred_at_is_finite"},
		{"a year of six digits", none, fact + `'document.uploaded', '290000-01-01', NULL)`, "outbox_times_have_a_year"},
		{"a year before any", none, fact + `'document.uploaded', '4000-01-01 BC', NULL)`, "outbox_times_have_a_year"},
		{"a list of attributes", none, fact + `'document.uploaded', now(), '[]')`, "outbox_attributes_are_a_small_object"},
		{"large attributes", none, fact + `'document.uploaded', now(), jsonb_build_object('a', repeat('x', 9000)))`, "outbox_attributes_are_a_small_object"},
		{"another name later", undecided, `UPDATE ops.domain_event_outbox SET event_name = 'document.deleted' WHERE event_id = {event}`, "outbox_fact_is_immutable"},
		{"another matter later", undecided, `UPDATE ops.domain_event_outbox SET matter_id = {new} WHERE event_id = {event}`, "outbox_fact_is_immutable"},
		{"another age later", undecided, `UPDATE ops.domain_event_outbox SET recorded_at = now() WHERE event_id = {event}`, "outbox_fact_is_immutable"},
		{"delete a fact", undecided, `DELETE FROM ops.domain_event_outbox WHERE event_id = {event}`, "outbox_facts_stay"},
		{"empty the outbox", none, `TRUNCATE ops.domain_event_outbox`, "outbox_facts_stay"},
		{"drop a fact undecided", undecided, settle, "undecided_goes_with_its_receipt"},
		{"settle what is judged", undecided, receipt + `'ignored', NULL);` + settle, ""},
		{"settle what is judged again", redecided, receipt + `'ignored', NULL)` + again + settle, ""},
		{"settle what is ignored and was demanded", demanded, receipt + `'ignored', NULL)` + again + settle, ""},
		{"drop a fact put back by redecide", redecided, settle, "undecided_goes_with_its_receipt"},
		{"drop a fact put back by an epoch", fenced, settle, "undecided_goes_with_its_receipt"},
		{"drop a fact with another's verdict", undecided, fact + `'document.uploaded', now(), NULL);
			INSERT INTO ops.trigger_receipts (event_id, verdict) SELECT event_id, 'ignored' FROM ops.domain_event_outbox WHERE {job} AND event_id <> {event};` + settle, "undecided_goes_with_its_receipt"},
		{"drop a fact put back and locked", redecided, `SELECT 1 FROM ops.trigger_receipts WHERE event_id = {event} FOR UPDATE;` + settle, "undecided_goes_with_its_receipt"},
		{"empty the undecided", none, `TRUNCATE ops.outbox_undecided`, "undecided_stay"},
		{"an undecided row of something else", undecided, `UPDATE ops.outbox_undecided SET event_id = {new} WHERE event_id = {event}`, "undecided_stay"},
		{"an unknown verdict", undecided, receipt + `'maybe', NULL)`, "receipts_verdict"},
		{"a gate without a name", undecided, receipt + `'gated:', NULL)`, "receipts_verdict"},
		{"decided at no time", undecided, bend(receipt, `requested_generation)`, `decided_at)`) + `'ignored', 'infinity')`, "receipts_have_a_year"},
		{"undecided at no time", none, `INSERT INTO ops.outbox_undecided (seq, event_id, recorded_at) VALUES (-1, {new}, 'infinity')`, "undecided_has_a_year"},
		{"demanded of nothing", undecided, receipt + `'demanded', NULL)`, "receipts_generation_when_demanded"},
		{"ignored with a generation", undecided, receipt + `'ignored', 1)`, "receipts_generation_when_demanded"},
		{"a receipt of no fact", none, `INSERT INTO ops.trigger_receipts (event_id, verdict) VALUES ({new}, 'ignored')`, "receipts_are_of_a_fact"},
		{"demanded of nobody", undecided, receipt + `'demanded', 1)`, "receipts_demand_is_in_the_ledger"},
		{"demand that has landed", served, receipt + `'demanded', 2)`, "receipts_demand_is_in_the_ledger"},
		{"demand that is not there yet", demanded, `UPDATE ops.trigger_receipts SET requested_generation = 2 WHERE event_id = {event}`, "receipts_demand_is_in_the_ledger"},
		{"demand judged away", demanded, `UPDATE ops.trigger_receipts SET verdict = 'ignored', requested_generation = NULL WHERE event_id = {event}`, "receipts_demanded_is_final"},
		{"a receipt of something else", demanded, `UPDATE ops.trigger_receipts SET event_id = {new} WHERE event_id = {event}`, "receipts_demanded_is_final"},
		{"delete a receipt", demanded, `DELETE FROM ops.trigger_receipts WHERE event_id = {event}`, "receipts_stay"},
		{"empty the receipts", none, `TRUNCATE ops.trigger_receipts`, "receipts_stay"},
	}
}

func ledgerAttacks() []attack {
	const audit = `INSERT INTO ops.audit_log (actor, action, target, reason) VALUES `
	const pause = `INSERT INTO ops.dispatch_pauses (firm_id, paused_by, reason) VALUES ({firm}, `
	return []attack{
		{"raise the epoch", none, `UPDATE ops.ledger SET epoch = epoch + 1`, ""},
		{"a second ledger", none, `INSERT INTO ops.ledger (one, system_identifier, timeline) VALUES (false, 1, 1)`, "ledger_has_one_row"},
		{"epoch nought", none, unguarded + `UPDATE ops.ledger SET epoch = 0`, "ledger_epoch_positive"},
		{"publish perhaps", none, `UPDATE ops.ledger SET publishing = 'perhaps'`, "ledger_publishing"},
		{"the epoch back", none, `UPDATE ops.ledger SET epoch = epoch - 1`, "ledger_epoch_never_decreases"},
		{"delete the ledger", none, `DELETE FROM ops.ledger`, "ledger_row_stays"},
		{"empty the ledger", none, `TRUNCATE ops.ledger`, "ledger_row_stays"},
		{"nobody acted", none, audit + `('', 'a', 't', 'r')`, "audit_needs_actor"},
		{"nothing done", none, audit + `('a', '', 't', 'r')`, "audit_needs_action"},
		{"no reason", none, audit + `('a', 'b', 't', ' ')`, "audit_needs_reason"},
		{"park without a reason", queued, `SELECT ops.park_matter({firm}, {matter}, 'park', 'op', ' ')`, "audit_needs_reason"},
		{"park by nobody", queued, `SELECT ops.park_matter({firm}, {matter}, 'park', '', 'why')`, "audit_needs_actor"},
		{"acted at no time", none, bend(audit, `reason)`, `reason, at)`) + `('a', 'b', 't', 'r', 'infinity')`, "audit_has_a_year"},
		{"changed at no time", none, `UPDATE ops.ledger SET changed_at = 'infinity'`, "ledger_change_has_a_year"},
		{"paused at no time", none, bend(pause, `reason)`, `reason, paused_at)`) + `'op', 'r', 'infinity')`, "dispatch_pauses_have_a_year"},
		{"rewrite the audit", none, `UPDATE ops.audit_log SET actor = 'x'`, "audit_log_is_append_only"},
		{"delete the audit", none, `DELETE FROM ops.audit_log`, "audit_log_is_append_only"},
		{"empty the audit", none, `TRUNCATE ops.audit_log`, "audit_log_is_append_only"},
		{"count something else", none, `INSERT INTO ops.retention_counters (what) VALUES ('sheep')`, "retention_counters_what"},
		{"take less than nothing", none, unguarded + `UPDATE ops.retention_counters SET taken = -1`, "retention_counters_not_negative"},
		{"count by hand", none, `UPDATE ops.retention_counters SET taken = taken + 1`, "retention_counters_count_what_leaves"},
		{"count by a trigger of one's own", none, `CREATE TEMP TABLE mine (a int); CREATE FUNCTION pg_temp.up() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN
			UPDATE ops.retention_counters SET taken = taken + 7 WHERE what = 'landed_runs'; RETURN NULL; END $f$;
			CREATE TRIGGER up AFTER INSERT ON mine EXECUTE FUNCTION pg_temp.up(); INSERT INTO mine VALUES (1)`, "retention_counters_count_what_leaves"},
		{"stop counting", none, `DELETE FROM ops.retention_counters`, "retention_counters_stay"},
		{"empty the counters", none, `TRUNCATE ops.retention_counters`, "retention_counters_stay"},
		{"paused by nobody", none, pause + `'', 'r')`, "dispatch_pauses_who"},
		{"paused for nothing", none, pause + `'op', ' ')`, "dispatch_pauses_why"},
		{"paused twice", none, pause + `'op', 'r'); ` + pause + `'op', 'r')`, "dispatch_pauses_one_a_scope"},
	}
}

func attacks() []attack {
	return slices.Concat(jobAttacks(), runAttacks(), frameAttacks(), factAttacks(), ledgerAttacks(), relayAttacks(), fenceAttacks(), changeAttacks())
}

// everything of one matter and of the ledger, to compare before and after.
const pictureSQL = `SELECT concat_ws(E'\n',
  (SELECT j::text FROM ops.matter_frame_jobs j WHERE firm_id = $1 AND matter_id = $2),
  (SELECT string_agg(r::text, E'\n' ORDER BY generation) FROM ops.matter_frame_runs r WHERE firm_id = $1 AND matter_id = $2),
  (SELECT string_agg(f::text, E'\n' ORDER BY generation) FROM ops.matter_frames f WHERE firm_id = $1 AND matter_id = $2),
  (SELECT string_agg(o::text, E'\n' ORDER BY seq) FROM ops.domain_event_outbox o WHERE firm_id = $1 AND matter_id = $2))`

func TestTheTableDefendsItself(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			m := &matter{key: rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}}
			a.from(t, db, m)
			before := picture(t, db, m.key)
			_, err := db.Pool.Exec(t.Context(), m.fill(a.sql))
			switch got := pg.Constraint(err); {
			case a.refused == "" && err != nil:
				t.Fatalf("a legal step was refused: %v", err)
			case a.refused != "" && err == nil:
				t.Fatalf("not refused, want %s", a.refused)
			case got != a.refused:
				t.Fatalf("refused as %q (%v), want %q", got, err, a.refused)
			}
			if after := picture(t, db, m.key); err != nil && after != before {
				t.Errorf("refused, and still changed:\n%s\n%s", before, after)
			}
		})
	}
	db.CheckLedger(t)
}

func picture(t *testing.T, db *pgtest.DB, k rail.Key) (text string) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), pictureSQL, k.Firm, k.Matter).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

// The names that the schema refuses by: its own constraints, what the guards
// raise, and the first argument of the plain refusals.
const namesSQL = `
SELECT c.conname FROM pg_constraint c WHERE c.connamespace = 'ops'::regnamespace AND c.contype IN ('c', 'u', 'x', 'f')
UNION
SELECT m[1] FROM pg_proc p, regexp_matches(p.prosrc, $re$(?:_refuse\(|CONSTRAINT = )'(\w+)'$re$, 'g') m WHERE p.pronamespace = 'ops'::regnamespace
UNION
SELECT split_part(encode(t.tgargs, 'escape'), '\000', 1) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
 WHERE p.proname LIKE 'refuse%' AND c.relnamespace = 'ops'::regnamespace AND NOT t.tgisinternal AND t.tgnargs > 0
ORDER BY 1`

func TestEveryGuardIsAttacked(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{}
	for _, a := range attacks() {
		tried[a.refused] = true
	}
	names := column(t, namesSQL)
	for _, name := range names {
		if !tried[name] {
			t.Errorf("no attack in the table is refused as %s", name)
		}
		delete(tried, name)
	}
	delete(tried, "")
	for name := range tried {
		t.Errorf("the table expects %s, which the schema does not have", name)
	}
}

// Triggers that do something instead of refusing; each has tests of its own.
func doers() []string {
	return []string{"outbox_is_undecided", "jobs_close_the_old_run", "runs_count_what_left", "failures_go_with_their_fact", "shadows_go_with_their_matter"}
}

const silentSQL = `
SELECT DISTINCT t.tgname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
 WHERE c.relnamespace = 'ops'::regnamespace AND NOT t.tgisinternal AND t.tgnargs = 0 AND p.prosrc !~ '(_refuse\(|CONSTRAINT = )'
 ORDER BY 1`

func TestEveryTriggerRefusesOrIsKnown(t *testing.T) {
	t.Parallel()
	for _, name := range column(t, silentSQL) {
		if !slices.Contains(doers(), name) {
			t.Errorf("trigger %s refuses nothing by name and is not known to do anything", name)
		}
	}
}

const offSQL = `
SELECT t.tgname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE c.relnamespace = 'ops'::regnamespace AND t.tgenabled <> 'O'
UNION ALL
SELECT conname::text FROM pg_constraint WHERE connamespace = 'ops'::regnamespace AND NOT convalidated`

func TestNoGuardIsOff(t *testing.T) {
	t.Parallel()
	if off := column(t, offSQL); len(off) > 0 {
		t.Errorf("switched off or not validated: %v", off)
	}
}

func column(t *testing.T, sql string) []string {
	t.Helper()
	db := pgtest.New(t)
	rows, err := db.Pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}
