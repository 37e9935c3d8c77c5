package pg_test

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
)

func files(texts ...string) fs.FS {
	m := fstest.MapFS{}
	for i, text := range texts {
		m["00"+string(rune('1'+i))+"_step.sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

const (
	one   = "create table demo.a (id int);\ncreate table demo.b (id int);\n---- create above / drop below ----\ndrop table demo.a;\n"
	two   = "create function demo.f() returns int language sql as $$ select 1; $$; -- a last word"
	three = "alter table demo.a add column note text"
)

func set(texts ...string) pg.Set { return pg.Set{FS: files(texts...), Schema: "demo"} }

func connect(t *testing.T, d *pgtest.DB) *pgx.Conn {
	t.Helper()
	conn, err := pg.Connect(t.Context(), pg.Options{DSN: d.DSN})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func up(t *testing.T, conn *pgx.Conn, s pg.Set) (int, error) {
	t.Helper()
	return pg.Migrator{Set: s}.Up(t.Context(), conn)
}

func TestMigrateInSteps(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	conn := connect(t, d)
	if n, err := up(t, conn, set(one)); n != 1 || err != nil {
		t.Fatalf("applied %d, %v", n, err)
	}
	var seen []string
	m := pg.Migrator{Set: set(one, two, three), OnStart: func(_ int, name string) { seen = append(seen, name) }}
	if n, err := m.Up(t.Context(), conn); n != 2 || err != nil {
		t.Fatalf("applied %d, %v", n, err)
	}
	if diff := cmp.Diff([]string{"002_step.sql", "003_step.sql"}, seen); diff != "" {
		t.Error(diff)
	}
	if n, err := m.Up(t.Context(), conn); n != 0 || err != nil {
		t.Errorf("applied %d, %v", n, err)
	}
	list, err := m.Set.Status(t.Context(), d.Pool)
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, x := range list {
		if !x.Applied || x.AppliedAt == nil || x.Changed {
			t.Errorf("%+v", x)
		}
	}
}

func TestStatusOfAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	list, err := set(one).Status(t.Context(), d.Pool)
	if err != nil || len(list) != 1 || list[0].Applied {
		t.Errorf("%+v, %v", list, err)
	}
	var se *pg.SchemaError
	err = set(one).Check(t.Context(), d.Pool)
	if !errors.As(err, &se) || !strings.Contains(err.Error(), "demo is at version 0") || !strings.Contains(err.Error(), "railctl migrate up") {
		t.Errorf("err = %v", err)
	}
}

func TestEditedMigrationIsRefused(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Empty(t))
	if _, err := up(t, conn, set(one)); err != nil {
		t.Fatal(err)
	}
	if _, err := up(t, conn, set(strings.ReplaceAll(one, "\n", "\r\n"))); err != nil {
		t.Errorf("other line ends: %v", err)
	}
	n, err := up(t, conn, set(one+"-- edited", two))
	if n != 0 || !errors.Is(err, pg.ErrChanged) || !strings.Contains(err.Error(), "001_step.sql") {
		t.Errorf("applied %d, %v", n, err)
	}
	if v, err := pg.Version(t.Context(), conn, "demo"); v != 1 || err != nil {
		t.Errorf("version %d, %v", v, err)
	}
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Empty(t))
	if _, err := up(t, conn, set(one, two)); err != nil {
		t.Fatal(err)
	}
	if _, err := up(t, conn, set(one)); err == nil || !strings.Contains(err.Error(), "newer than this program") {
		t.Errorf("err = %v", err)
	}
	if err := pg.CheckSchema(t.Context(), conn, "demo", 1, 2); err != nil {
		t.Error(err)
	}
}

func TestFailedMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Empty(t))
	n, err := up(t, conn, set(one, "create table demo.c (id int); select 1/0"))
	if n != 1 || err == nil || !strings.Contains(err.Error(), "002_step.sql") || pg.SQLState(err) != "22012" {
		t.Errorf("applied %d, %v", n, err)
	}
	if got := value(t, conn, "select (to_regclass('demo.c') is null)::text"); got != "true" {
		t.Error("half of a migration stayed")
	}
	if n, err := up(t, conn, set(one, two)); n != 1 || err != nil {
		t.Errorf("after the repair: %d, %v", n, err)
	}
}

func TestUnfitFilesAreRefused(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Empty(t))
	for want, s := range map[string]pg.Set{
		"template": set("select '{{ .x }}'"), "is empty": set("\n---- create above / drop below ----\ndrop table x"),
		"no files": set(), "not a schema name": {FS: files(one), Schema: `Demo"`},
		"Missing migration 1": {FS: fstest.MapFS{"002_x.sql": {Data: []byte("select 1")}}, Schema: "demo"},
	} {
		if _, err := up(t, conn, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestOnlyUnicodeIsMigrated(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	u, err := url.Parse(d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	for _, enc := range []string{"SQL_ASCII", "LATIN1"} {
		name := strings.TrimPrefix(u.Path, "/") + "_" + strings.ToLower(enc)
		if _, err := d.Pool.Exec(t.Context(), `CREATE DATABASE `+name+` ENCODING '`+enc+`' LOCALE 'C' TEMPLATE template0`); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = d.Pool.Exec(context.Background(), `DROP DATABASE `+name+` WITH (FORCE)`) })
		other := *u
		other.Path = "/" + name
		// a client that asks for UTF-8 gets it of any database; it is the store that counts
		for _, query := range []string{"", "&client_encoding=UTF8"} {
			conn, err := pg.Connect(t.Context(), pg.Options{DSN: other.String() + query})
			if err != nil {
				t.Fatal(err)
			}
			n, err := up(t, conn, set(one))
			_ = conn.Close(t.Context())
			if n != 0 || err == nil || !strings.Contains(err.Error(), enc) || !strings.Contains(err.Error(), "ENCODING 'UTF8'") {
				t.Errorf("%s%s: applied %d, %v", enc, query, n, err)
			}
		}
	}
}

func TestTwoMigratorsAtOnce(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	type result struct {
		n   int
		err error
	}
	results := make(chan result, 4)
	for range cap(results) {
		conn := connect(t, d)
		go func() {
			n, err := pg.Migrator{Set: set(one, "select pg_sleep(0.05)", three)}.Up(t.Context(), conn)
			results <- result{n, err}
		}()
	}
	total := 0
	for range cap(results) {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		}
		total += r.n
	}
	if total != 3 {
		t.Errorf("%d migrations ran, want 3 in all", total)
	}
}

func TestMigrationWaitsForLocksInTurns(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	conn := connect(t, d)
	if _, err := up(t, conn, set(one)); err != nil {
		t.Fatal(err)
	}
	holder, err := d.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "lock table demo.a in share mode"); err != nil {
		t.Fatal(err)
	}
	m := pg.Migrator{Set: set(one, three), LockTimeout: 20 * time.Millisecond, Attempts: 2}
	if _, err := m.Up(t.Context(), conn); pg.SQLState(err) != "55P03" {
		t.Errorf("err = %v", err)
	}
	tries := 0
	m.Attempts = 500
	m.OnStart = func(int, string) {
		if tries++; tries == 2 {
			_ = holder.Rollback(t.Context())
		}
	}
	if n, err := m.Up(t.Context(), conn); n != 1 || err != nil || tries < 2 {
		t.Errorf("applied %d in %d tries, %v", n, tries, err)
	}
}

// What Print shows can be applied by hand, and Up then has nothing left to do.
func TestPrintedSQLIsTheSameAsUp(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Empty(t))
	s := set(one, two, three)
	for v := range 3 {
		sql, err := s.Print(v + 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("version %d: %v\n%s", v+1, err, sql)
		}
	}
	if err := s.Check(t.Context(), conn); err != nil {
		t.Error(err)
	}
	if n, err := up(t, conn, s); n != 0 || err != nil {
		t.Errorf("applied %d, %v", n, err)
	}
	if _, err := up(t, conn, set(one, two+" ", three)); !errors.Is(err, pg.ErrChanged) {
		t.Errorf("err = %v", err)
	}
	if _, err := s.Print(4); err == nil {
		t.Error("version 4 was printed")
	}
}
