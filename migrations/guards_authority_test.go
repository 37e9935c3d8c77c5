package migrations_test

// What the attacks on the write fence begin with, in their own transaction.
const (
	bornWriter = `INSERT INTO ops.writers (name, kind, database_roles) VALUES ('old', 'external', '{old}');`
	bornFence  = bornWriter + `INSERT INTO ops.write_fences (scope, writer) VALUES ('fixture/attacked', 'old');`
	// a change planned by hand, in the fence's scope
	bornChange = bornFence + `INSERT INTO ops.write_fence_changes (change_id, scope, direction, from_writer, to_writer, from_epoch, content)
  VALUES ({run}, 'fixture/attacked', 'forward', 'old', 'rail', 1, sha256('x'));`
	closeFence = `UPDATE ops.write_fences SET state = 'closing', change_id = {run}, closing_deadline = now() + interval '1 minute' WHERE scope = 'fixture/attacked';`
	sealFence  = `UPDATE ops.write_fences SET state = 'sealed', final_sequence = 1 WHERE scope = 'fixture/attacked';`
	openFence  = `UPDATE ops.write_fences SET state = 'open', epoch = epoch + 1, writer = 'rail', closing_deadline = NULL WHERE scope = 'fixture/attacked';`
	endChange  = `UPDATE ops.write_fence_changes SET phase = 'advanced', outcome = 'advanced', to_epoch = 2, window_ends_at = now() + interval '1 day' WHERE change_id = {run};`
	undo       = `ROLLBACK;`
	bornReport = `INSERT INTO ops.write_fence_reports (change_id, sealed_at, final_sequence, passed, matters, digest, findings, took)
  VALUES ({run}, now(), 1, true, 1, sha256('x'), '[]', '1 ms');`
	bornIntent = `INSERT INTO ops.write_intents (intent_id, firm_id, matter_id, kind, payload_digest, epoch, writer, outcome, result, result_digest, decided_at)
  VALUES ({new}, {firm}, {matter}, 'brief.regenerate', sha256('x'), 1, 'rail', 'accepted', '{}', sha256('{}'), now());`
	bornShadow = `INSERT INTO ops.shadow_frames (firm_id, matter_id, source_sequence, frame, digest, schema_version, builder_version, difference, rule, details, compared_at)
  VALUES ({firm}, {matter}, 1, '{}', sha256('x'), '1', '1', 'representation', 'ids', 'x', now());`
	bornHold = `INSERT INTO ops.write_fence_holds (scope, watch) VALUES ('fixture/attacked', 'lag');`
	bornPath = bornWriter + `INSERT INTO ops.writer_paths (writer, kind, path) VALUES ('old', 'role', 'old');`
	bornLog  = `INSERT INTO ops.compatibility_log (firm_id, matter_id, generation, epoch, digest) VALUES ({firm}, {matter}, 1, 1, sha256('x'));`
	bornNote = `INSERT INTO ops.fence_evidence (scope, kind) VALUES ('fixture/attacked', 'late_fact');`
	bornRule = bornFence + `INSERT INTO ops.write_fence_guards (guarded, scope, writer) VALUES ('ops.ledger', 'fixture/attacked', 'old');`
)

// fenceAttacks end in no state that a later one could meet: what is legal is undone.
func fenceAttacks() []attack {
	fence := func(set string) string {
		return `UPDATE ops.write_fences SET ` + set + ` WHERE scope = 'fixture/attacked';`
	}
	writer := func(set string) string { return `UPDATE ops.writers SET ` + set + ` WHERE name = 'old';` }
	return []attack{
		{"a whole crossing by hand", running, bornChange + closeFence + sealFence + openFence + endChange + undo, ""},
		{"a closing taken back by hand", running, bornChange + closeFence + sealFence + fence(`state = 'open', closing_deadline = NULL`) + undo, ""},

		{"a writer without a plain name", none, bend(bornWriter, `'old'`, `'Old Writer'`), "writers_name"},
		{"a writer of no kind", none, bend(bornWriter, `external`, `ghost`), "writers_kind"},
		{"a writer without a role", none, bend(bornWriter, `{old}`, `{}`), "writers_have_roles"},
		{"a writer with an empty role", none, bend(bornWriter, `{old}`, `{""}`), "writers_have_roles"},
		{"an importer of the rail", none, `UPDATE ops.writers SET importer_role = 'x' WHERE name = 'rail'`, "writers_importer"},
		{"an endpoint that is none", none, bornWriter + writer(`endpoint = 'ftp://x'`), "writers_endpoint"},
		{"a writer neither active nor retired", none, bornWriter + unguarded + writer(`status = 'asleep'`), "writers_status"},
		{"retired at no time", none, bornWriter + writer(`status = 'retired'`), "writers_retired_says_when"},
		{"the rail retired", none, `UPDATE ops.writers SET status = 'retired', retired_at = now() WHERE name = 'rail'`, "writers_rail_stays"},
		{"a writer renamed", none, bornWriter + writer(`name = 'new'`), "writers_are_fixed"},
		{"a writer of another kind", none, unguarded + bornWriter + guarded + writer(`kind = 'rail'`), "writers_are_fixed"},
		{"a retired writer comes back", none, bornWriter + writer(`status = 'retired', retired_at = now()`) + writer(`status = 'active', retired_at = NULL`), "writers_retire_once"},
		{"a writer with authority retired", none, bornFence + writer(`status = 'retired', retired_at = now()`), "writers_retire_without_scopes"},
		{"a writer deleted", none, bornWriter + `DELETE FROM ops.writers WHERE name = 'old'`, "writers_stay"},
		{"a writer of no year", none, bornWriter + writer(`registered_at = 'infinity'`), "writers_times_have_a_year"},

		{"a scope of no kind", none, bend(bornFence, `fixture/attacked`, `matters/bucket-64`), "fences_scope"},
		{"another bucket function", none, bornFence + unguarded + fence(`bucket_version = 2`), "fences_bucket_version"},
		{"an epoch before the first", none, bornFence + unguarded + fence(`epoch = 0`), "fences_epoch_positive"},
		{"a fence of nobody", none, bend(bornFence, `('fixture/attacked', 'old')`, `('fixture/attacked', 'ghost')`), "write_fences_writer_fkey"},
		{"a fence ajar", none, bornFence + unguarded + fence(`state = 'ajar', change_id = {new}, closing_deadline = now()`), "fences_state"},
		{"closing without a change", none, bornFence + fence(`state = 'closing', closing_deadline = now()`), "fences_closed_by_a_change"},
		{"closing for ever", none, bornFence + fence(`state = 'closing', change_id = {new}`), "fences_closed_by_a_change"},
		{"closing without an end, as after a restore", running, bornChange + bend(closeFence, `now() + interval '1 minute'`, `'infinity'`) + undo, ""},
		{"closing since before time", running, bornChange + bend(closeFence, `now() + interval '1 minute'`, `'-infinity'`), "fences_times_have_a_year"},
		{"closing until no year", running, bornChange + bend(closeFence, `now() + interval '1 minute'`, `'290000-01-01'`), "fences_times_have_a_year"},
		{"a fence changed at no time", none, bornFence + fence(`changed_at = 'infinity'`), "fences_times_have_a_year"},
		{"open with a deadline", none, bornFence + fence(`closing_deadline = now()`), "fences_closed_by_a_change"},
		{"sealed at no sequence", running, bornChange + closeFence + fence(`state = 'sealed'`), "fences_sealed_at_a_sequence"},
		{"a fence born closed", none, bornWriter + `INSERT INTO ops.write_fences (scope, writer, state, change_id, closing_deadline)
			VALUES ('fixture/attacked', 'old', 'closing', {new}, now())`, "fences_born_open"},
		{"a fence moved to another scope", none, bornFence + fence(`scope = 'fixture/other'`), "fences_scope_is_fixed"},
		{"sealed without closing", running, bornChange + fence(`state = 'sealed', final_sequence = 1, change_id = {run}, closing_deadline = now()`), "fences_transition"},
		{"closing again what is sealed", running, bornChange + closeFence + sealFence + fence(`state = 'closing'`), "fences_transition"},
		{"a writer put in while open", none, bornFence + fence(`writer = 'rail', epoch = 2`), "fences_advance_from_sealed"},
		{"advanced from closing", running, bornChange + closeFence + openFence, "fences_advance_from_sealed"},
		{"an epoch skipped", running, bornChange + closeFence + sealFence + bend(openFence, `epoch + 1`, `epoch + 2`), "fences_advance_from_sealed"},
		{"an epoch back", running, bornChange + closeFence + sealFence + openFence + fence(`epoch = 1`), "fences_advance_from_sealed"},
		{"a retired writer put in", running, bornChange + closeFence + sealFence + bend(openFence, `'rail'`, `'gone'`), "fences_writer_is_active"},
		{"a closing taken over", running, bornChange + closeFence + fence(`change_id = {new}`), "fences_closing_is_of_one_change"},
		{"a closing made longer", running, bornChange + closeFence + fence(`closing_deadline = 'infinity'`), "fences_closing_is_of_one_change"},
		{"a revision back", none, bornFence + fence(`effective_revision = 5`) + fence(`effective_revision = 4`), "fences_revision_never_decreases"},
		{"a fence torn down", none, bornFence + `DELETE FROM ops.write_fences`, "fences_stay"},
		{"all fences torn down", none, bornFence + `TRUNCATE ops.write_fences`, "fences_stay"},
	}
}

func changeAttacks() []attack {
	change := func(set string) string {
		return `UPDATE ops.write_fence_changes SET ` + set + ` WHERE change_id = {run};`
	}
	intent := func(set string) string {
		return bornIntent + `UPDATE ops.write_intents SET ` + set + ` WHERE firm_id = {firm};`
	}
	hold := func(set string) string { return bornHold + `UPDATE ops.write_fence_holds SET ` + set + `;` }
	const released = `released_at = now(), released_by = 'op', class = 'routing', reason = 'why'`
	return []attack{
		{"a change sideways", running, bend(bornChange, `'forward'`, `'sideways'`), "changes_direction"},
		{"a change from nobody", running, bend(bornChange, `'old', 'rail', 1`, `'ghost', 'rail', 1`), "write_fence_changes_from_writer_fkey"},
		{"a change to nobody", running, bend(bornChange, `'old', 'rail', 1`, `'old', 'ghost', 1`), "write_fence_changes_to_writer_fkey"},
		{"a change of nothing", running, bend(bornChange, `sha256('x')`, `''`), "changes_content_is_sha256"},
		{"a change of no cohort", running, bend(bend(bornChange, `changes (change_id,`, `changes (cohort, change_id,`), `VALUES ({run}`, `VALUES ('', {run}`), "changes_cohort"},
		{"a change to itself", running, bend(bornChange, `'old', 'rail', 1`, `'old', 'old', 1`), "changes_go_somewhere"},
		{"a grace of nothing", running, bornChange + unguarded + change(`grace = '0'`), "changes_times_are_sane"},
		{"a deadline within the grace", running, bornChange + unguarded + change(`deadline = '1 ms'`), "changes_times_are_sane"},
		{"a pause of a year", running, bornChange + unguarded + change(`pause_budget = '1 year'`), "changes_times_are_sane"},
		{"a window without an end", running, bornChange + bend(endChange, `now() + interval '1 day'`, `'infinity'`), "changes_times_have_a_year"},
		{"a phase of its own", running, bornChange + unguarded + change(`phase = 'half', outcome = 'advanced', to_epoch = 2, window_ends_at = now()`), "changes_phase"},
		{"an outcome of its own", running, bornChange + change(`outcome = 'half', phase = 'advanced'`), "changes_outcome"},
		{"advanced to no epoch", running, bornChange + change(`phase = 'advanced', outcome = 'advanced'`), "changes_end_once"},
		{"a rollback of nothing", running, bend(bornChange, `'forward'`, `'rollback'`), "changes_rollback_names_its_change"},
		{"a rollback of a ghost", running, bend(bend(bend(bornChange, `'forward'`, `'rollback'`), `content)`, `content, rolls_back)`), `sha256('x')`, `sha256('x'), {new}`), "write_fence_changes_rolls_back_fkey"},
		{"a change about something else", running, bornChange + change(`to_writer = 'old'`), "changes_content_is_fixed"},
		{"a change backwards", running, bornChange + change(`phase = 'closing'`) + change(`phase = 'shadowed'`), "changes_go_forward"},
		{"a change reopened", running, bornChange + change(`phase = 'aborted', outcome = 'aborted'`) + change(`phase = 'planned', outcome = NULL`), "changes_go_forward"},
		{"an ended change's result", running, bornChange + endChange + change(`measured_pause = '1 ms'`), "changes_end_once"},
		{"a window made longer", running, bornChange + endChange + change(`window_ends_at = window_ends_at + interval '1 day'`), "changes_end_once"},
		{"a change forgotten", running, bornChange + `DELETE FROM ops.write_fence_changes`, "changes_are_history"},

		{"a report of no change", none, bend(bornReport, `{run}`, `{new}`), "write_fence_reports_change_id_fkey"},
		{"a report without a digest", running, bornChange + bend(bornReport, `sha256('x')`, `''`), "reports_digest_is_sha256"},
		{"a report that found an object", running, bornChange + bend(bornReport, `'[]'`, `'{}'`), "reports_findings"},
		{"a report of no time", running, bornChange + bend(bend(bornReport, `took)`, `took, made_at)`), `'1 ms')`, `'1 ms', 'infinity')`), "reports_times_have_a_year"},
		{"a report that passes in spite of itself", running, bornChange + bend(bornReport, `'[]'`, `'[1]'`), "reports_pass_without_findings"},
		{"a report made better", running, bornChange + bornReport + `UPDATE ops.write_fence_reports SET matters = 2`, "reports_are_immutable"},

		{"an intent of no kind", none, bend(bornIntent, `'brief.regenerate'`, `'Regenerate!'`), "intents_kind"},
		{"an intent without a payload", none, bend(bornIntent, `sha256('x')`, `''`), "intents_payload_is_sha256"},
		{"an intent of nobody", none, bend(bornIntent, `'rail'`, `'ghost'`), "write_intents_writer_fkey"},
		{"an intent that is perhaps", none, bend(bornIntent, `'accepted'`, `'perhaps'`), "intents_outcome"},
		{"a result without a digest of its own", none, bend(bornIntent, `sha256('{}')`, `'x'`), "intents_result_is_sha256"},
		{"unknown, with a result", none, bend(bornIntent, `'accepted'`, `'unknown'`), "intents_decided_unless_unknown"},
		{"accepted without a result", none, bend(bornIntent, `'{}', sha256('{}')`, `NULL, NULL`), "intents_decided_unless_unknown"},
		{"an intent about another payload", none, intent(`payload_digest = sha256('y')`), "intents_content_is_fixed"},
		{"another result of an accepted intent", none, intent(`result = '{"a":1}', epoch = 2`), "intents_are_decided_once"},
		{"an intent forgotten during a change", running, bornChange + bornIntent + `DELETE FROM ops.write_intents WHERE firm_id = {firm}`, "intents_stay"},
		{"an intent decided at no time", none, bend(bornIntent, `now()`, `'infinity'`), "intents_times_have_a_year"},

		{"a shadow that is no object", none, bend(bornShadow, `'{}'`, `'[]'`), "shadow_frames_are_objects"},
		{"a shadow without a digest", none, bend(bornShadow, `sha256('x')`, `''`), "shadow_digest_is_sha256"},
		{"a difference of no class", none, bend(bornShadow, `'representation'`, `'odd'`), "shadow_difference"},
		{"a difference without a rule", none, bend(bornShadow, `'ids'`, `NULL`), "shadow_compared_by_a_rule"},
		{"a long story", none, bend(bornShadow, `'x', now()`, `repeat('x', 2001), now()`), "shadow_details_are_short"},
		{"a shadow compared at no time", none, bend(bornShadow, `now()`, `'infinity'`), "shadow_times_have_a_year"},

		{"a frame told twice to the old writer", none, bornLog + bornLog, "compatibility_one_a_frame"},
		{"what was told forgotten during a change", running, bornChange + bornLog + `DELETE FROM ops.compatibility_log`, "compatibility_stays"},
		{"told at no time", none, bornLog + `UPDATE ops.compatibility_log SET exported_at = 'infinity' WHERE firm_id = {firm}`, "compatibility_times_have_a_year"},
		{"evidence of no kind", none, bend(bornNote, `late_fact`, `rumour`), "evidence_kind"},
		{"evidence changed", none, bornNote + `UPDATE ops.fence_evidence SET kind = 'hole'`, "evidence_is_append_only"},
		{"evidence of no time", none, bend(bend(bornNote, `kind)`, `kind, seen_at)`), `'late_fact')`, `'late_fact', 'infinity')`), "evidence_has_a_year"},

		{"a hold of no watch", none, bend(bornHold, `'lag'`, `''`), "holds_watch"},
		{"a release of no class", none, hold(bend(released, `routing`, `whim`)), "holds_class"},
		{"a release without a reason", none, hold(bend(released, `'why'`, `' '`)), "holds_reason"},
		{"half a release", none, hold(`released_at = now()`), "holds_released_for_a_reason"},
		{"a hold released at no time", none, hold(bend(released, `now()`, `'infinity'`)), "holds_times_have_a_year"},
		{"a hold released twice", none, hold(released) + `UPDATE ops.write_fence_holds SET reason = 'other';`, "holds_are_released_once"},
		{"a hold forgotten", none, bornHold + `DELETE FROM ops.write_fence_holds`, "holds_stay"},

		{"a guard of two scopes", none, bend(bend(bornRule, `guards (guarded,`, `guards (key_column, guarded,`), `('ops.ledger'`, `('x', 'ops.ledger'`), "guards_know_the_scope"},
		{"a guard for nobody", none, bend(bornRule, `('ops.ledger', 'fixture/attacked', 'old')`, `('ops.ledger', 'fixture/attacked', 'ghost')`), "write_fence_guards_writer_fkey"},
		{"a guard of no time", none, bornRule + `UPDATE ops.write_fence_guards SET guarded_at = 'infinity'`, "guards_have_a_year"},
		{"a table guarded before its scopes", none, bornFence + `SELECT ops.guard_table('ops.dispatch_pauses', 'firm_id', NULL, 'old', NULL, NULL, 'op', 'why')`, "guards_need_fences"},
		{"a table freed before its writer is gone", none, bornRule + `SELECT ops.unguard_table('ops.ledger', 'op', 'why')`, "guards_stay"},
		{"a path of no kind", none, bend(bornPath, `'role'`, `'tunnel'`), "paths_kind"},
		{"a path of nobody", none, bend(bornPath, `VALUES ('old', 'role', 'old')`, `VALUES ('ghost', 'role', 'old')`), "writer_paths_writer_fkey"},
		{"a path to nowhere", none, bend(bornPath, `'role', 'old'`, `'role', ''`), "paths_path"},
		{"a try without a verdict", none, bornPath + `UPDATE ops.writer_paths SET tried_at = now()`, "paths_tried_have_a_verdict"},
		{"a try at no time", none, bornPath + `UPDATE ops.writer_paths SET tried_at = 'infinity', refused = true`, "paths_have_a_year"},
		{"a long answer", none, bornPath + `UPDATE ops.writer_paths SET answer = repeat('x', 501)`, "paths_answer_is_short"},
	}
}
