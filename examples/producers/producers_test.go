package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// app is a migrated database with the application's own table.
func app(t *testing.T, more ...string) *pgtest.DB {
	t.Helper()
	db := pgtest.New(t)
	for _, name := range append([]string{"app.sql"}, more...) {
		apply(t, db, name)
	}
	return db
}

// apply runs a file of SQL as it stands.
func apply(t *testing.T, db *pgtest.DB, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), string(text)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// facts are the rail's facts as "name firm matter", in the order of their insert.
func facts(t *testing.T, db pg.DB) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT concat_ws(' ', event_name, firm_id, matter_id) FROM ops.domain_event_outbox ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func documents(t *testing.T, db pg.DB) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM app.documents`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// told holds the database against one document and its fact.
func told(t *testing.T, db *pgtest.DB, firm, matter string) {
	t.Helper()
	if diff := cmp.Diff([]string{"document.uploaded " + firm + " " + matter}, facts(t, db.Pool)); diff != "" {
		t.Error(diff)
	}
	if n := documents(t, db.Pool); n != 1 {
		t.Errorf("%d documents", n)
	}
}

func ids() (firm, matter string) { return rail.NewUUID().String(), rail.NewUUID().String() }

// program finds an interpreter, or skips.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s on this machine", name)
	}
	return path
}

// start runs a program with the test's database and returns what it said.
func start(t *testing.T, db *pgtest.DB, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+db.DSN)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestFactFromPsql(t *testing.T) {
	t.Parallel()
	psql := program(t, "psql")
	db := app(t)
	firm, matter := ids()
	out, err := start(t, db, psql, db.DSN, "-X", "-v", "ON_ERROR_STOP=1", "-v", "firm="+firm, "-v", "matter="+matter, "-v", "name=it's a lease.pdf", "-f", "fact.sql")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	told(t, db, firm, matter)
}

func TestFactFromGo(t *testing.T) {
	t.Parallel()
	db := app(t)
	firm, matter := ids()
	if _, err := run(t.Context(), db.DSN, firm, matter, "lease.pdf"); err != nil {
		t.Fatal(err)
	}
	told(t, db, firm, matter)
	if _, err := run(t.Context(), db.DSN, firm, "no matter", "other.pdf"); err == nil {
		t.Error("no error for an id that is none")
	}
	told(t, db, firm, matter)
}

func TestFactFromPython(t *testing.T) {
	t.Parallel()
	python := program(t, "python3")
	if out, err := exec.CommandContext(t.Context(), python, "-c", `import ast; ast.parse(open("fact.py").read())`).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if exec.CommandContext(t.Context(), python, "-c", "import psycopg").Run() != nil {
		t.Skip("its syntax is right; psycopg is not installed, so it was not run")
	}
	db := app(t)
	firm, matter := ids()
	if out, err := start(t, db, python, "fact.py", firm, matter, "lease.pdf"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	told(t, db, firm, matter)
}

// The example is a JavaScript module too, which is what lets node alone read it. It
// is run where node can load the driver.
func TestFactFromTypeScript(t *testing.T) {
	t.Parallel()
	node := program(t, "node")
	text, err := os.ReadFile("fact.ts")
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(t.TempDir(), "fact.mjs")
	if err := os.WriteFile(module, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), node, "--check", module).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	db := app(t)
	firm, matter := ids()
	out, err := start(t, db, node, module, firm, matter, "lease.pdf")
	if strings.Contains(out, "ERR_MODULE_NOT_FOUND") {
		t.Skip("its syntax is right; the module pg is not installed, so it was not run")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	told(t, db, firm, matter)
}

// The application writes its own outbox and knows nothing of the rail: what has a
// name here becomes a fact, with its id, in its transaction.
func TestFactsFromAnOutboxOfItsOwn(t *testing.T) {
	t.Parallel()
	db := app(t, "from_own_outbox.sql")
	firm, matter := ids()
	const three = `INSERT INTO app.outbox (type, tenant_id, case_id, payload) VALUES
	  ('TenantCreated', $1, NULL, '{}'), ('DocumentUploaded', $1, $2, '{"secret": 1}'), ('UserLoggedIn', $1, $2, '{}')`
	ctx := t.Context()
	tx, err := db.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, three, firm, matter); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if got := facts(t, db.Pool); len(got) > 0 {
		t.Errorf("facts of a transaction that was rolled back: %v", got)
	}
	if _, err := db.Pool.Exec(ctx, three, firm, matter); err != nil {
		t.Fatal(err)
	}
	want := []string{"firm.created " + firm, "document.uploaded " + firm + " " + matter}
	if diff := cmp.Diff(want, facts(t, db.Pool)); diff != "" {
		t.Error(diff)
	}
	var same int
	const shared = `SELECT count(*) FROM ops.domain_event_outbox o JOIN app.outbox a ON a.id = o.event_id AND a.created_at = o.occurred_at WHERE o.attributes IS NULL`
	if err := db.Pool.QueryRow(ctx, shared).Scan(&same); err != nil || same != 2 {
		t.Errorf("%d facts have the application's id and time, %v", same, err)
	}
}

// The grants that README.md names are enough for a producer, and give nothing else.
func TestGrantsOfAProducer(t *testing.T) {
	t.Parallel()
	db := app(t)
	role := "producer_" + db.Name // roles belong to the whole server
	id := pgx.Identifier{role}.Sanitize()
	ctx := t.Context()
	if _, err := db.Pool.Exec(ctx, "CREATE ROLE "+id+"; GRANT USAGE ON SCHEMA app TO "+id+"; GRANT INSERT ON app.documents TO "+id+`;
	  GRANT USAGE ON SCHEMA ops TO `+id+"; GRANT INSERT ON ops.domain_event_outbox TO "+id+"; GRANT SELECT (event_id) ON ops.domain_event_outbox TO "+id+"; GRANT EXECUTE ON FUNCTION ops.matter_bucket(uuid) TO "+id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := db.Pool.Exec(context.WithoutCancel(ctx), "DROP OWNED BY "+id+"; DROP ROLE "+id); err != nil {
			t.Errorf("drop the role: %v", err)
		}
	})
	as := func(body func(pgx.Tx) error) error {
		return pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL ROLE "+id); err != nil {
				return err
			}
			return body(tx)
		})
	}
	firm, matter := ids()
	if err := as(func(tx pgx.Tx) error { _, err := upload(ctx, tx, firm, matter, "lease.pdf"); return err }); err != nil {
		t.Fatal(err)
	}
	told(t, db, firm, matter)
	for _, sql := range []string{
		`SELECT attributes FROM ops.domain_event_outbox`, `DELETE FROM ops.domain_event_outbox`,
		`SELECT 1 FROM ops.outbox_undecided`, `SELECT 1 FROM ops.matter_frame_jobs`,
	} {
		err := as(func(tx pgx.Tx) error { _, err := tx.Exec(ctx, sql); return err })
		if pg.SQLState(err) != "42501" {
			t.Errorf("%s as a producer: %v", sql, err)
		}
	}
}
