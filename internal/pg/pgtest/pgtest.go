// Package pgtest gives every test a PostgreSQL database of its own.
//
// It owns databases whose names begin with rail_t_ (one per test, dropped at its
// end) and rail_tpl_ (templates: a migrated database, named by the hash of its
// migrations, cloned for each test). They live on the server of RAIL_TEST_DSN, or
// on a shared local cluster, in memory where that is possible, which the first test process
// starts and the following ones join. That cluster outlives them on purpose: a
// start costs more than most tests. It does not sync to disk, needs no care, and
// Stop ends it (`go run ./internal/pg/pgtest/stop`); databases left by a killed test process are dropped by later ones.
//
// Nothing is kept in the process, so tests may run in parallel in any number of
// packages. Where there is no PostgreSQL a test fails with what to install: a
// skipped test would say that all is well.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg"
	"briefrail/internal/pg/local"
)

// DB is one test's own database.
type DB struct {
	Pool *pgxpool.Pool // at most eight sessions
	DSN  string        // for processes and further pools
	Name string        // of the database

	admin string // DSN of the server's maintenance database
}

// poolSize is enough for a test's own statements beside the code it tests.
const poolSize = 8

// Empty makes a database without any schema of ours.
func Empty(t testing.TB) *DB { return NewWith(t) }

// NewWith makes a database with the newest version of the given migrations.
func NewWith(t testing.TB, sets ...pg.Set) *DB {
	t.Helper()
	return newOn(t, server(t), sets)
}

// NewOn is NewWith on a cluster of the test's own.
func NewOn(t testing.TB, c *local.Cluster, sets ...pg.Set) *DB {
	t.Helper()
	return newOn(t, c.DSN("postgres"), sets)
}

// Cluster starts a private server for a test that stops, kills or configures it.
// It ends with the test.
func Cluster(t testing.TB, o local.Options) *local.Cluster {
	t.Helper()
	if o.Dir == "" {
		o.Dir = scratch(t)
	}
	c, err := local.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleanup()
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close private cluster: %v", err)
		}
	})
	return c
}

// scratch is a folder for one test that, unlike t.TempDir, the server's account can
// pass through.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(fastDir(), "briefrail-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// NewPool opens a further pool on the test's database; it is closed with the test.
func (d *DB) NewPool(t testing.TB, maxConns int32) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.Options{DSN: d.DSN, MaxConns: maxConns, ApplicationName: appName(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}

func newOn(t testing.TB, admin string, sets []pg.Set) *DB {
	t.Helper()
	d := &DB{Name: newName(), admin: admin}
	d.DSN = withDatabase(admin, d.Name)
	if err := d.create(t.Context(), sets); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.drop(t) })
	d.Pool = d.NewPool(t, poolSize)
	return d
}

// create clones the template.
func (d *DB) create(ctx context.Context, sets []pg.Set) error {
	conn, err := pgx.Connect(ctx, d.admin)
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	template, err := ensureTemplate(ctx, conn, d.admin, sets)
	if err != nil {
		return err
	}
	if err := clone(ctx, conn, d.Name, template); err != nil {
		return fmt.Errorf("clone %s: %w", template, err)
	}
	return nil
}

// clone uses the strategy that was measured to be the faster one for a database of
// this size under parallel tests.
func clone(ctx context.Context, conn *pgx.Conn, name, template string) error {
	_, err := conn.Exec(ctx, "create database "+ident(name)+" template "+ident(template)+" strategy file_copy")
	return err
}

// drop removes the database, whoever is still connected, and one or two that a
// killed process left.
func (d *DB) drop(t testing.TB) {
	ctx, cancel := cleanup()
	defer cancel()
	conn, err := pgx.Connect(ctx, d.admin)
	if err != nil {
		t.Logf("test database %s stays: %v", d.Name, err) // a private cluster may be down by intent
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "drop database if exists "+ident(d.Name)+" with (force)"); err != nil {
		t.Errorf("drop test database: %v", err)
	}
	dropLeftovers(ctx, conn)
}

// closePool does not wait for ever for a session that the test leaked.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	done := make(chan struct{})
	go func() { pool.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Errorf("pool has %d sessions in use at the end of the test", pool.Stat().AcquiredConns())
	}
}

func cleanup() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

func appName(t testing.TB) string {
	name := "test " + t.Name()
	return name[:min(len(name), 60)]
}

// withDatabase points a connection string at another database of its server.
func withDatabase(dsn, name string) string {
	if u, err := url.Parse(dsn); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		u.Path = "/" + name
		return u.String()
	}
	return dsn + " dbname=" + name // the last one counts
}

func ident(s string) string { return pgx.Identifier{s}.Sanitize() }

// server is the DSN of the maintenance database to use.
func server(t testing.TB) string {
	t.Helper()
	if dsn := os.Getenv("RAIL_TEST_DSN"); dsn != "" {
		return dsn
	}
	dsn, err := join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}
