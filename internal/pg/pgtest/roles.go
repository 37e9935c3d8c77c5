package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/deploy"
	"briefrail/internal/pg"
)

// rolesLock keeps two tests from changing the server's roles at once. It is taken in
// the maintenance database: such a lock is one database's.
const rolesLock = int64(0x7261696c_726f6c)

// GrantRoles applies deploy/roles.sql to the test's database. The roles belong to the
// server, are made by the first test that asks and stay.
func (d *DB) GrantRoles(t testing.TB) {
	t.Helper()
	if err := d.grantRoles(t.Context()); err != nil {
		t.Fatalf("apply roles.sql: %v", err)
	}
}

func (d *DB) grantRoles(ctx context.Context) error {
	unlock, err := d.LockRoles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = d.Pool.Exec(ctx, deploy.Roles)
	return err
}

// LockRoles is for a test that applies roles.sql in a way of its own.
func (d *DB) LockRoles(ctx context.Context) (unlock func(), err error) {
	conn, err := pgx.Connect(ctx, d.admin)
	if err != nil {
		return nil, fmt.Errorf("connect to the test server: %w", err)
	}
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", rolesLock); err != nil {
		_ = conn.Close(ctx)
		return nil, fmt.Errorf("lock the roles: %w", err)
	}
	return func() { _ = conn.Close(context.WithoutCancel(ctx)) }, nil
}

// As is the test's DSN with another role's name. It skips the test on a server of
// RAIL_TEST_DSN that wants that role's password.
func (d *DB) As(t testing.TB, role string) string {
	t.Helper()
	u, err := url.Parse(d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	conn, err := pgx.Connect(t.Context(), u.String())
	if state := pg.SQLState(err); state == "28P01" || state == "28000" {
		t.Skipf("the test server does not let %s in without a password: %v", role, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())
	return u.String()
}

// PoolAs is a pool of the role's sessions; it is closed with the test.
func (d *DB) PoolAs(t testing.TB, role string) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.Options{DSN: d.As(t, role), MaxConns: 4, ApplicationName: appName(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}
