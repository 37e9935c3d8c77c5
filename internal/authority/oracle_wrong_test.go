package authority_test

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// judging is a trigger's body: what a commit is judged by.
const judging = `
CREATE OR REPLACE FUNCTION ops.fence_judging(scope_of text, writer_of text, epoch_of text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $judging$ BEGIN RETURN format($f$ `

// without a judgement: whoever was admitted commits.
const unjudged = judging + `NULL; $f$); END $judging$;`

// staleJudged does not ask for the isolation level.
const staleJudged = judging + `
    s := %s;
    e := %s;
    PERFORM pg_advisory_xact_lock_shared(ops.fence_key('b', s));
    PERFORM ops.fence_judge(s, %s, e, true); $f$, scope_of, epoch_of, writer_of); END $judging$;`

// admitting is an admission that begins with something else than lock A.
func admitting(first string) string {
	return `
CREATE OR REPLACE FUNCTION ops.admit(scope text, writer text, epoch bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $admit$
BEGIN
  ` + first + `
  RETURN ops.fence_judge(scope, writer, epoch, false);
END $admit$;`
}

// horizon waits for the transactions that had an id when it was called, and takes no
// lock: who has written nothing yet has no id.
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

// early reads the position before it waits for the last commits.
const early = `
DO $do$ BEGIN EXECUTE replace(replace(pg_get_functiondef('ops.seal_scope(uuid)'::regprocedure),
  'final_sequence = ops.fence_final_sequence(c.scope, c.from_writer)', 'final_sequence = c.final_sequence'),
  'locked := ops.fence_lock(', 'c.final_sequence := ops.fence_final_sequence(c.scope, c.from_writer); locked := ops.fence_lock('); END $do$;`

// Fences that were turned down, or are wrong by one word. The oracle that finds nothing
// wrong with ours finds each of these out.
func TestTheOracleKnowsWrongFences(t *testing.T) {
	t.Parallel()
	only := func(how string, statements []string) map[string][]string { return map[string][]string{how: statements} }
	late := []error{errLate, errPosition} // whichever is looked at first
	c := clusterOfOracles(t)
	for name, wrong := range map[string]struct {
		altered string
		ways    map[string][]string
		each    int // of each way
		close   time.Duration
		finds   []error
	}{
		"a lock of the row": {
			altered: admitting(`PERFORM 1 FROM ops.write_fences f WHERE f.scope = admit.scope FOR SHARE;`),
			ways:    only("admitted", admitted), each: 16, close: 2 * time.Second, finds: []error{errStarved},
		},
		"a horizon of transaction ids":      {altered: admitting(``) + unjudged + horizon, ways: only("admitted", admitted), each: 6, finds: late},
		"a lock at the admission only":      {altered: unjudged, ways: only("admitted", admitted), each: 6, finds: late},
		"nothing asked at the commit":       {altered: unjudged, ways: only("raw", []string{insertSQL}), each: 4, finds: late},
		"a position read before the lock":   {altered: early, ways: allWays(), each: 1, finds: []error{errPosition}},
		"REPEATABLE READ is let in as well": {altered: staleJudged, ways: only("unfresh", unfresh), each: 6, finds: late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOracle(t, c, wrong.altered)
			if wrong.close > 0 {
				o.close = wrong.close
			}
			var writing []scribbler
			for range wrong.each {
				writing = append(writing, o.scribblers(t, wrong.ways, nil)...)
			}
			err := o.run(t, 1000, writing)
			if !slices.ContainsFunc(wrong.finds, func(f error) bool { return errors.Is(err, f) }) {
				t.Fatalf("after %d crossings: %v, want: %v; writes: %s", o.moved, err, wrong.finds, told(writing))
			}
			t.Logf("found out after %d crossings: %v", o.moved, err)
		})
	}
}
