package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
)

const (
	testPrefix     = "rail_t_"
	templatePrefix = "rail_tpl_"
	// templateLock keeps two processes from building the same template.
	templateLock = int64(0x7261696c_74706c)
	// leftoverAge is far beyond any test's time limit.
	leftoverAge = 2 * time.Hour
)

// newName carries the time and the process, by which leftovers are known.
func newName() string {
	return fmt.Sprintf("%s%d_%d_%08x", testPrefix, time.Now().Unix(), os.Getpid(), rand.Uint32())
}

// ensureTemplate returns the template for sets, which it builds when it is
// missing. Without sets that is PostgreSQL's own.
func ensureTemplate(ctx context.Context, conn *pgx.Conn, admin string, sets []pg.Set) (string, error) {
	if len(sets) == 0 {
		return "template0", nil
	}
	name, err := templateName(sets)
	if err != nil {
		return "", err
	}
	if ok, err := exists(ctx, conn, name); err != nil || ok {
		return name, err
	}
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", templateLock); err != nil {
		return "", fmt.Errorf("lock test template: %w", err)
	}
	defer func() { _, _ = conn.Exec(ctx, "select pg_advisory_unlock($1)", templateLock) }()
	if ok, err := exists(ctx, conn, name); err != nil || ok { // built while we waited
		return name, err
	}
	if err := build(ctx, conn, admin, name, sets); err != nil {
		return "", fmt.Errorf("build test template: %w", err)
	}
	return name, nil
}

// templateName is the hash of every migration, so that a change of one makes a new
// template.
func templateName(sets []pg.Set) (string, error) {
	h := sha256.New()
	for _, s := range sets {
		names, err := fs.Glob(s.FS, "*.sql")
		if err != nil {
			return "", fmt.Errorf("list migrations: %w", err)
		}
		for _, n := range names {
			b, err := fs.ReadFile(s.FS, n)
			if err != nil {
				return "", fmt.Errorf("read migration: %w", err)
			}
			fmt.Fprintf(h, "%s/%s %d\n%s", s.Schema, n, len(b), b)
		}
	}
	return templatePrefix + hex.EncodeToString(h.Sum(nil)[:8]), nil
}

func exists(ctx context.Context, conn *pgx.Conn, name string) (ok bool, err error) {
	err = conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).Scan(&ok)
	if err != nil {
		err = fmt.Errorf("look for test template: %w", err)
	}
	return ok, err
}

// build migrates under another name first: a database that has the template's name
// is complete.
func build(ctx context.Context, conn *pgx.Conn, admin, name string, sets []pg.Set) error {
	draft := name + "_draft"
	for _, sql := range []string{
		"drop database if exists " + ident(draft) + " with (force)",
		"create database " + ident(draft) + " template template0",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := migrateAll(ctx, withDatabase(admin, draft), sets); err != nil {
		return err
	}
	for _, sql := range []string{
		"alter database " + ident(draft) + " allow_connections false", // a connection would block clones
		"alter database " + ident(draft) + " rename to " + ident(name),
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func migrateAll(ctx context.Context, dsn string, sets []pg.Set) error {
	conn, err := pg.Connect(ctx, pg.Options{DSN: dsn, ApplicationName: "test template"})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, s := range sets {
		if _, err := (pg.Migrator{Set: s}).Up(ctx, conn); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "analyze") // autovacuum is off, and clones inherit the statistics
	return err
}

// dropLeftovers drops at most two databases whose test process has gone. Errors do
// not matter: another process may be at the same one, and there is a next time.
func dropLeftovers(ctx context.Context, conn *pgx.Conn) {
	rows, err := conn.Query(ctx, `select datname from pg_database where starts_with(datname, $1)`, testPrefix)
	if err != nil {
		return
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return
	}
	dropped := 0
	for _, n := range names {
		if dropped < 2 && abandoned(n, time.Now()) {
			_, _ = conn.Exec(ctx, "drop database if exists "+ident(n)+" with (force)")
			dropped++
		}
	}
}

// abandoned reports whether a test database is nobody's any more: very old, or, on
// a server of this machine, made by a process that does not exist.
func abandoned(name string, now time.Time) bool {
	f := strings.Split(strings.TrimPrefix(name, testPrefix), "_")
	if len(f) != 3 {
		return false
	}
	made, errT := strconv.ParseInt(f[0], 10, 64)
	pid, errP := strconv.Atoi(f[1])
	if errT != nil || errP != nil {
		return false
	}
	if now.Sub(time.Unix(made, 0)) > leftoverAge {
		return true
	}
	return os.Getenv("RAIL_TEST_DSN") == "" && syscall.Kill(pid, 0) == syscall.ESRCH
}
