package migrations_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/frames"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// loud is a session whose call stacks end in the parameters of its statement, which
// any user may ask for.
func loud(t *testing.T, db *pgtest.DB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), db.Pool.Config().ConnConfig.Copy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	if _, err := conn.Exec(t.Context(), `SET log_parameter_max_length_on_error = -1`); err != nil {
		t.Fatal(err)
	}
	return conn
}

// kept is every table that only retention may delete from, the name under which it
// refuses, and retention's own statement and function.
func kept() map[string][3]string {
	return map[string][3]string{
		"ops.domain_event_outbox": {"outbox_facts_stay", "DELETE FROM ops.domain_event_outbox WHERE event_id = ANY (done)", "ops.prune(text,interval,integer)"},
		"ops.trigger_receipts":    {"receipts_stay", "DELETE FROM ops.trigger_receipts WHERE event_id = ANY (done)", "ops.prune(text,interval,integer)"},
		"ops.matter_frame_jobs":   {"jobs_stay", "DELETE FROM ops.matter_frame_jobs WHERE firm_id = firm AND (matter_id = matter)", "ops.purge_matter(uuid,uuid,text,text)"},
		"ops.matter_frame_runs":   {"runs_stay", "DELETE FROM ops.matter_frame_runs WHERE run_id = ANY (done)", "ops.prune(text,interval,integer)"},
		"ops.matter_frames":       {"frames_stay", "DELETE FROM ops.matter_frames WHERE firm_id = firm AND (matter_id = matter)", "ops.purge_matter(uuid,uuid,text,text)"},
	}
}

// forgeries are what a parameter may say to look like the caller of a statement.
func forgeries(statement, function string) []string {
	caller := "PL/pgSQL function " + function + " line 9 at SQL statement"
	return []string{
		" " + function + " ", "\n" + caller, "\n" + caller + "\n", "x\nSQL statement \"" + statement + "\"\n" + caller,
		"'\nSQL statement \"" + statement + "\"\n" + caller + "\n", " ops.prune() ", "\n x ops.prune() x",
	}
}

func TestParametersDoNotPassForRetention(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := loud(t, db)
	for table, k := range kept() {
		for _, text := range forgeries(k[1], k[2]) {
			_, err := conn.Exec(t.Context(), "DELETE FROM "+table+" WHERE $1::text IS NOT NULL", text)
			if pg.Constraint(err) != k[0] {
				t.Errorf("%s with the parameter %q: %v, want %s", table, text, err, k[0])
			}
		}
	}
}

// Statements of retention in other hands: the very text, and the text with the line
// of its caller behind it, in a comment, in a name, in a string.
func TestTextDoesNotPassForRetention(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const do = `DO $f$ DECLARE done uuid[] := '{}'; firm uuid; matter uuid; BEGIN %s; END $f$`
	for table, k := range kept() {
		behind := "\"\nPL/pgSQL function " + k[2] + " line 9 at SQL statement"
		for name, sql := range map[string]string{
			"the same text":           fmt.Sprintf(do, k[1]),
			"a comment behind":        fmt.Sprintf(do, k[1]+" /*"+behind+"*/"),
			"a comment before":        fmt.Sprintf(do, "/*"+k[1]+behind+"*/ DELETE FROM "+table),
			"an alias":                fmt.Sprintf(do, "DELETE FROM "+table+" AS "+behind+"\""),
			"a string":                fmt.Sprintf(do, "DELETE FROM "+table+" WHERE '"+k[1]+behind+"' = ''"),
			"executed text":           fmt.Sprintf(do, "EXECUTE $x$"+strings.NewReplacer("= ANY (done)", "IS NULL", "= firm", "IS NULL", "(matter_id = matter)", "(matter_id IS NULL)").Replace(k[1])+" /*"+behind+"*/$x$"),
			"a function of that name": "CREATE FUNCTION pg_temp.\"" + k[2] + "\"() RETURNS void LANGUAGE plpgsql AS $f$ DECLARE done uuid[]; firm uuid; matter uuid; BEGIN " + k[1] + "; END $f$; SELECT pg_temp.\"" + k[2] + "\"()",
			"a function in SQL":       "CREATE FUNCTION pg_temp.prune() RETURNS void LANGUAGE sql AS $f$ DELETE FROM " + table + " $f$; SELECT pg_temp.prune()",
		} {
			if _, err := db.Pool.Exec(t.Context(), sql); pg.Constraint(err) != k[0] {
				t.Errorf("%s, %s: %v, want %s", table, name, err, k[0])
			}
		}
	}
}

// The verbs themselves take parameters, also where the server shows them, and from
// inside other functions.
func TestRetentionPassesWithItsParametersShown(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := loud(t, db)
	m := &matter{key: rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}}
	idle(t, db, m)
	demanded(t, db, m)
	for _, kind := range []string{"outbox", "receipts", "runs"} {
		if _, err := pg.Prune(t.Context(), conn, kind, time.Hour, 10); err != nil {
			t.Error(err)
		}
	}
	if _, err := frames.Prune(t.Context(), conn, []rail.Key{m.key}, 1); err != nil {
		t.Error(err)
	}
	const purge = `SELECT frames, runs, jobs FROM ops.purge_matter($1, $2, $3, $4)`
	var frames, runs, jobs int64
	if err := conn.QueryRow(t.Context(), purge, m.key.Firm, m.key.Matter, "op", "why").Scan(&frames, &runs, &jobs); err != nil {
		t.Fatal(err)
	}
	if frames != 1 || runs != 1 || jobs != 1 {
		t.Errorf("purged %d frames, %d runs, %d jobs", frames, runs, jobs)
	}
	if _, err := conn.Exec(t.Context(), `DO $f$ BEGIN PERFORM ops.prune('runs', interval '1 hour', 10); END $f$`); err != nil {
		t.Errorf("from inside a block: %v", err)
	}
	db.CheckLedger(t)
}

// A cascade runs inside retention's own statement; a rule then deletes beside it.
func TestACascadeDoesNotPassForRetention(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ refers, child, to, remove, refused string }{
		{"event_id uuid REFERENCES ops.domain_event_outbox", "{event}", "ops.domain_event_outbox", `SELECT ops.prune('outbox', '0', 10)`, "outbox_facts_stay"},
		{
			"firm_id uuid, matter_id uuid, FOREIGN KEY (firm_id, matter_id) REFERENCES ops.matter_frame_jobs", "{firm}, {matter}", "ops.matter_frame_jobs",
			`SELECT ops.purge_matter({firm}, {matter}, 'op', 'why')`, "jobs_stay",
		},
	} {
		db := pgtest.New(t)
		m := &matter{key: rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}}
		judged(t, db, m, "demanded")
		other := &matter{key: rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}}
		undecided(t, db, other)
		queued(t, db, other)
		run(t, db, `CREATE TABLE public.child (`+c.refers+` ON DELETE CASCADE)`)
		run(t, db, m.fill("INSERT INTO public.child VALUES ("+c.child+")"))
		run(t, db, `CREATE RULE beside AS ON DELETE TO public.child DO ALSO DELETE FROM `+c.to)
		if _, err := db.Pool.Exec(t.Context(), m.fill(c.remove)); pg.Constraint(err) != c.refused {
			t.Errorf("%s: %v, want %s", c.remove, err, c.refused)
		}
	}
}

// Whatever a session asked for, the verbs are known by their words.
func TestRetentionPassesInEverySession(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, set := range []string{
		"quote_all_identifiers = on", "standard_conforming_strings = off", "search_path = ops", "lc_messages = 'zh_CN.UTF-8'",
		"lc_messages = 'ja_JP.UTF-8'", "lc_messages = 'de_DE.UTF-8'", "lc_messages = 'tr_TR.UTF-8'",
	} {
		m := &matter{key: rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}}
		idle(t, db, m)
		conn := loud(t, db)
		if _, err := conn.Exec(t.Context(), "SET "+set); pg.SQLState(err) == "22023" {
			t.Logf("not tried, the server does not have it: %s: %v", set, err)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `SELECT ops.purge_matter($1, $2, 'op', 'why')`, m.key.Firm, m.key.Matter); err != nil {
			t.Errorf("with %s: %v", set, err)
		}
		for table, k := range kept() {
			if _, err := conn.Exec(t.Context(), "DELETE FROM "+table+" WHERE $1::text IS NOT NULL", "\n"+k[2]); pg.Constraint(err) != k[0] {
				t.Errorf("%s with %s: %v, want %s", table, set, err, k[0])
			}
		}
	}
}

// A purge holds its key even where there is no job: the run of a claim that slipped in
// between its statements would go, and leave a claim without a run.
func TestPurgeHoldsTheKeyOfAMatterWithoutAJob(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := &matter{key: rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}}
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }() // done already, or the test has failed
	var n int64
	if err := tx.QueryRow(t.Context(), `SELECT jobs + runs + frames FROM ops.purge_matter($1, $2, 'op', 'why')`, m.key.Firm, m.key.Matter).Scan(&n); err != nil || n != 0 {
		t.Fatalf("purged %d of nothing: %v", n, err)
	}
	_, err = db.Pool.Exec(t.Context(), `BEGIN; SET LOCAL lock_timeout = '100ms'; `+m.fill(bornJob+`'queued', 1, 0, 0, 0, now(), now(), now(), NULL, NULL, NULL, NULL, NULL); COMMIT`))
	if pg.SQLState(err) != "55P03" {
		t.Errorf("a job was born beside the purge: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	running(t, db, m)
	db.CheckLedger(t)
}
