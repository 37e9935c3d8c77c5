// Package rivals holds the fences that were turned down, as SQL that puts them in the
// place of ours, so that what is wrong with each can be shown and measured beside it.
//
// It owns and keeps nothing. Whoever tests or measures decides what to run, in a
// database of its own, before the tables are guarded: the judgement of a commit is
// written into their triggers. It does not promise that a rival fails at every crossing.
package rivals

const judging = `
CREATE OR REPLACE FUNCTION ops.fence_judging(scope_of text, writer_of text, epoch_of text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $judging$ BEGIN RETURN format($f$ `

// AdmissionOnly judges nobody at the commit: whoever was admitted once writes.
const AdmissionOnly = judging + `NULL; $f$); END $judging$;`

// AnyIsolation does not ask for the isolation level at the commit.
const AnyIsolation = judging + `
    s := %s;
    e := %s;
    PERFORM pg_advisory_xact_lock_shared(ops.fence_key('b', s));
    PERFORM ops.fence_judge(s, %s, e, true); $f$, scope_of, epoch_of, writer_of); END $judging$;`

// RowLock has a writer lock the row of its fence, FOR SHARE, until it commits. Like ours
// it refuses before it waits, or a seal would starve as well.
func RowLock() string {
	return admission(`PERFORM ops.fence_judge(scope, writer, epoch, false);
  PERFORM 1 FROM ops.write_fences f WHERE f.scope = admit.scope FOR SHARE;`)
}

// Horizon takes no lock at all: whoever closes waits for the transactions that have an
// id by then, and who has written nothing yet has none.
func Horizon() string { return admission(``) + AdmissionOnly + horizon }

func admission(first string) string {
	return `
CREATE OR REPLACE FUNCTION ops.admit(scope text, writer text, epoch bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $admit$
BEGIN
  ` + first + `
  RETURN ops.fence_judge(scope, writer, epoch, false);
END $admit$;`
}

const horizon = `
CREATE OR REPLACE FUNCTION ops.fence_lock(id bigint, at_most interval) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $lock$
DECLARE
  until_here xid8 := pg_snapshot_xmax(pg_current_snapshot());
BEGIN
  WHILE pg_snapshot_xmin(pg_current_snapshot()) < until_here LOOP
    PERFORM pg_sleep(0.001);
  END LOOP;
  RETURN true;
END $lock$;`

// EarlyPosition reads the final sequence before it waits for the last commits.
const EarlyPosition = `
DO $do$ BEGIN EXECUTE replace(replace(pg_get_functiondef('ops.seal_scope(uuid)'::regprocedure),
  'final_sequence = ops.fence_final_sequence(c.scope, c.from_writer)', 'final_sequence = c.final_sequence'),
  'locked := ops.fence_lock(', 'c.final_sequence := ops.fence_final_sequence(c.scope, c.from_writer); locked := ops.fence_lock('); END $do$;`
