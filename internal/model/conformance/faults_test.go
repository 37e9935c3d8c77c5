package conformance_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"briefrail/internal/model/specs"
	"briefrail/internal/pg"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
)

// fault is a mistake that somebody could make in a statement.
type fault struct {
	name string
	in   string   // the statement's text, or a part of it that no other statement has
	text []string // old and new, in pairs
	then string   // another statement, after it

	function string           // where it is in a function of the database instead
	at       specs.LedgerKind // walks without such a step are left out; 0 for none
	demands  int              // that it takes to show it, where two are too few
}

// change applies the fault to the statement that it is in.
func (f *fault) change(sql string) (string, bool) {
	if f.function != "" || !strings.Contains(sql, f.in) {
		return sql, false
	}
	return f.edit(sql)
}

// edit replaces every pair, or nothing where one of them is not there.
func (f *fault) edit(sql string) (string, bool) {
	changed := sql
	for i := 0; i < len(f.text); i += 2 {
		if !strings.Contains(changed, f.text[i]) {
			return sql, false
		}
		changed = strings.ReplaceAll(changed, f.text[i], f.text[i+1])
	}
	return changed, true
}

const (
	token       = " AND j.claimed_generation = @generation::bigint AND j.run_id = @run::uuid"
	renewals    = "WITH mine AS"
	question    = "SELECT outcome FROM"
	withoutFlag = "rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL"
)

func faults() []fault {
	land, fail, release, claim, expire := runs.LandSQL(), runs.FailSQL(), runs.ReleaseSQL(), runs.ClaimSQL(), sweep.ExpireSQL()
	return []fault{
		{name: "landing: token not checked", in: land, text: []string{token, ""}},
		{name: "landing: run_id not checked", in: land, text: []string{" AND j.run_id = @run::uuid", ""}},
		{name: "landing: `>=` for `=`, run_id not checked", in: land, text: []string{token, " AND j.claimed_generation >= @generation::bigint"}},
		{name: "landing: frame comes in unconditionally", in: land, text: []string{
			"SELECT l.firm_id, l.matter_id, l.generation, @frame", "SELECT @firm::uuid, @matter::uuid, @generation::bigint, @frame",
			"l.authority_epoch, l.run_id\n    FROM landed l\n", "1, @run::uuid\n",
		}},
		{name: "landing: follow-up not queued", in: land, text: []string{"CASE WHEN h.rebuild_needed THEN 'queued' ELSE 'idle' END", "'idle'"}},
		{name: "landing: flag cleared by a statement of its own", in: land, text: []string{
			"run_status = CASE WHEN h.rebuild_needed THEN 'queued' ELSE 'idle' END", "run_status = 'idle'",
			withoutFlag, "rebuild_needed = h.rebuild_needed, rebuild_since = h.rebuild_since, rebuild_priority = h.rebuild_priority",
			"h.owed_since, j.run_status", "h.owed_since, CASE WHEN h.rebuild_needed THEN 'queued' ELSE 'idle' END AS run_status",
		}, then: `UPDATE ops.matter_frame_jobs SET run_status = 'queued', ` + withoutFlag + ` WHERE run_status = 'idle' AND rebuild_needed`},
		{name: "landing: flag left up", in: land, text: []string{",\n         " + withoutFlag, ""}},
		{name: "landing: attempts not forgotten", in: land, text: []string{"attempts = 0, ", ""}},
		{name: "landing: demand of the build's time counted as served", in: land, text: []string{"h.requested_generation - h.claimed_generation", "0"}},
		{name: "landing: all demand of the build's time counted as one", in: land, text: []string{
			"h.requested_generation - h.claimed_generation", "CASE WHEN h.rebuild_needed THEN 1 ELSE 0 END",
		}, demands: 3},
		{name: "landing: nobody is told", in: land, text: []string{"FROM landed s WHERE true", "FROM landed s WHERE false"}},
		{name: "settling: the run's row not believed", in: question, text: []string{question, "SELECT 'running' FROM"}},

		{name: "claim: number not bumped", in: claim, text: []string{"+ 1 AS generation", "AS generation"}},
		{name: "claim: attempt not counted", in: claim, text: []string{"attempts = j.attempts + 1", "attempts = j.attempts"}},
		{name: "claim: demand by the claim's own bump", in: claim, text: []string{"attempts = j.attempts + 1", "attempts = j.attempts + 1, demands_owed = j.demands_owed + 1"}},

		{name: "renewal: token not checked", in: renewals, text: []string{" AND j.claimed_generation = m.generation AND j.run_id = m.run_id", ""}, at: specs.LedgerRenewFenced},
		{name: "renewal: run_id not checked", in: renewals, text: []string{" AND j.run_id = m.run_id", ""}, at: specs.LedgerRenewFenced},
		{name: "renewal: lease not moved", in: renewals, text: []string{"clock_timestamp() + @lease::interval", "j.lease_expires_at"}, at: specs.LedgerRenews},

		{name: "failure: token not checked", in: fail, text: []string{token, ""}, at: specs.LedgerFailFenced},
		{name: "failure: parked though demand came meanwhile", in: fail, text: []string{"NOT h.rebuild_needed AND ", ""}},
		{name: "failure: flag left up", in: fail, text: []string{",\n         " + withoutFlag, ""}},
		{name: "failure: attempts without end", in: fail, text: []string{"h.attempts >= @max_attempts::integer", "false"}},
		{name: "failure: never for good", in: fail, text: []string{"@permanent::boolean OR ", ""}},
		{name: "failure: parked, and nobody is told", in: fail, text: []string{"WHERE s.run_status = 'parked'", "WHERE false"}},
		{name: "release: token not checked", in: release, text: []string{token, ""}, at: specs.LedgerReleaseFenced},
		{name: "release: attempt charged", in: release, text: []string{"attempts = h.attempts - 1, ", ""}},

		{name: "sweep: by id only, no look at the lease", in: expire, text: []string{" AND lease_expires_at <= clock_timestamp()", "", " AND j.lease_expires_at <= clock_timestamp()", ""}},
		{name: "sweep: run left open", in: expire, text: []string{"WHERE r.run_id = s.run_id AND", "WHERE false AND"}},
		{name: "sweep: parked, and nobody is told", in: expire, text: []string{"WHERE s.run_status = 'parked'", "WHERE false"}},

		{name: "demand: flag not set", function: "ops.demand", text: []string{"rebuild_needed = j.run_status = 'running'", "rebuild_needed = false"}},
		{name: "demand: a running row queued under its holder", function: "ops.demand", text: []string{
			"run_status = CASE WHEN j.run_status = 'idle' OR", "run_status = CASE WHEN j.run_status IN ('idle', 'running') OR",
		}},
		{name: "demand: a running row passed over", function: "ops.demand", text: []string{
			"\n  RETURNING j.firm_id", "\n  WHERE j.run_status <> 'running'\n  RETURNING j.firm_id",
		}},
		{name: "demand: a parked row stays parked", function: "ops.demand", text: []string{
			"'idle' OR j.parked_by = 'failures' THEN 'queued'", "'idle' THEN 'queued'", "CASE WHEN j.parked_by = 'operator' THEN", "CASE WHEN true THEN",
		}},
	}
}

// apply makes the database and its session one with a fault.
func (db *database) apply(t *testing.T, f *fault) {
	t.Helper()
	if f.function == "" {
		db.work.fault = f
		return
	}
	var definition string
	if err := db.failover.QueryRow(t.Context(), `SELECT pg_get_functiondef($1::text::regproc)`, f.function).Scan(&definition); err != nil {
		t.Fatal(err)
	}
	changed, ok := f.edit(definition)
	if !ok {
		t.Fatalf("%s: the function has no such text", f.name)
	}
	if _, err := db.failover.Exec(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	db.work.changed++
}

const unguardSQL = `
DO $$
DECLARE
  c record;
BEGIN
  FOR c IN SELECT conrelid::regclass AS "table", conname FROM pg_constraint
            WHERE conrelid IN ('ops.matter_frame_jobs'::regclass, 'ops.matter_frame_runs'::regclass, 'ops.matter_frames'::regclass)
              AND (contype = 'c' OR conname IN ('matter_frames_pkey', 'frames_one_a_run', 'runs_one_a_generation')) LOOP
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c."table", c.conname);
  END LOOP;
END $$;
ALTER TABLE ops.matter_frame_jobs DISABLE TRIGGER USER;
ALTER TABLE ops.matter_frame_runs DISABLE TRIGGER USER;
ALTER TABLE ops.matter_frames DISABLE TRIGGER USER;
CREATE INDEX ON ops.matter_frame_runs (firm_id, matter_id, generation);
CREATE INDEX ON ops.matter_frames (firm_id, matter_id, generation)`

// unguard takes everything away by which the tables refuse a row, so that only the
// comparison can notice.
func (db *database) unguard(t *testing.T) {
	t.Helper()
	if _, err := db.failover.Exec(t.Context(), unguardSQL); err != nil {
		t.Fatal(err)
	}
}

// find walks until something differs; nil where nothing does. The walks come in a
// mixed order, always the same: those with most in them stand at the end.
func find(t *testing.T, db *database, g *graph, at specs.LedgerKind) error {
	t.Helper()
	c := &campaign{graph: g, took: map[edge]bool{}, asked: make([]atomic.Bool, g.States())}
	var walks [][]edge
	for walk := range g.Cover(0) {
		if at == 0 || slices.ContainsFunc(walk, func(e edge) bool { return e.Action.Kind == at }) {
			walks = append(walks, walk)
		}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(walks), func(i, j int) { walks[i], walks[j] = walks[j], walks[i] })
	for _, walk := range walks {
		err := c.walk(t.Context(), db, walk)
		if pg.IsTransient(err) {
			t.Fatalf("the database is not there: %v", err) // not what is looked for
		}
		if err != nil {
			return err
		}
		db.tidy(t)
	}
	return nil
}

// Each deliberate fault is caught: by the comparison with the model where the tables
// would take it, and what the guards of the tables refuse besides is written down.
func TestDeliberateFaults(t *testing.T) {
	t.Parallel()
	two, three := search(t, specs.Options{Workers: 2, Faults: 2}), search(t, specs.Options{Workers: 1, Faults: 1, Demands: 3})
	all := faults()
	refusedBy := make([]string, len(all))
	caughtAt := make([]string, len(all))
	t.Run("each", func(t *testing.T) {
		for i := range all {
			t.Run(all[i].name, func(t *testing.T) {
				t.Parallel()
				g := two
				if all[i].demands > 2 {
					g = three
				}
				caughtAt[i] = unguarded(t, g, &all[i])
				refusedBy[i] = guarded(t, g, &all[i])
			})
		}
	})
	if !t.Failed() {
		document(t, "deliberate faults", faultsTable(all, caughtAt, refusedBy))
	}
}

// unguarded returns the step at which the comparison catches the fault.
func unguarded(t *testing.T, g *graph, f *fault) string {
	t.Helper()
	db := newDatabase(t, attempts)
	db.unguard(t)
	db.apply(t, f)
	err := find(t, db, g, f.at)
	var d *difference
	switch {
	case err == nil:
		t.Fatal("nothing differs")
	case db.work.changed == 0:
		t.Fatal("no statement was changed")
	case pg.SQLState(err) != "" || !errors.As(err, &d):
		t.Fatalf("not the comparison noticed, but: %v", err)
	}
	t.Log(err)
	return d.at
}

// guarded returns the constraint or guard by which the tables refuse the fault, empty
// where they take it.
func guarded(t *testing.T, g *graph, f *fault) string {
	t.Helper()
	db := newDatabase(t, attempts)
	db.apply(t, f)
	err := find(t, db, g, f.at)
	switch {
	case err == nil:
		t.Fatal("nothing differs behind guards")
	case pg.SQLState(err) != "" && pg.Constraint(err) == "":
		t.Fatalf("refused for another reason: %v", err)
	}
	return pg.Constraint(err)
}

// The unchanged code on the database without guards: what is caught there is the fault.
func TestUnguardedTablesChangeNothing(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, attempts)
	db.unguard(t)
	if err := find(t, db, search(t, specs.Options{Workers: 2, Faults: 1}), 0); err != nil {
		t.Error(err)
	}
}

// Faults that are none, as what they leave out is said by something else in the check:
// no run's id comes again, and only a row that runs has one.
func TestHarmlessFaults(t *testing.T) {
	t.Parallel()
	g := search(t, specs.Options{Workers: 2, Faults: 1})
	for _, f := range []fault{
		{name: "landing: generation not checked", in: runs.LandSQL(), text: []string{" AND j.claimed_generation = @generation::bigint", ""}},
		{name: "landing: status not checked", in: runs.LandSQL(), text: []string{"j.run_status = 'running' AND ", ""}},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, attempts)
			db.unguard(t)
			db.apply(t, &f)
			if err := find(t, db, g, f.at); err != nil || db.work.changed == 0 {
				t.Errorf("%d statements changed: %v", db.work.changed, err)
			}
		})
	}
}

func faultsTable(all []fault, caughtAt, refusedBy []string) string {
	var b strings.Builder
	b.WriteString("| fault | caught at | refused by the tables too |\n|---|---|---|\n")
	for i, f := range all {
		by := "no"
		if refusedBy[i] != "" {
			by = "`" + refusedBy[i] + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f.name, caughtAt[i], by)
	}
	return b.String()
}
