package deploy_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"briefrail/deploy"
	"briefrail/internal/pg"
	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
)

// rightsSQL is every grant, owner, policy and setting of a function in the schema, as
// the catalogue has them.
const rightsSQL = `
SELECT 'schema ' || nspname || ' ' || nspowner::regrole || ' ' || coalesce(nspacl::text, '') FROM pg_namespace WHERE nspname = 'ops'
UNION ALL SELECT c.oid::regclass || ' ' || relowner::regrole || ' ' || relrowsecurity || ' ' || coalesce(relacl::text, '')
  FROM pg_class c WHERE relnamespace = 'ops'::regnamespace
UNION ALL SELECT attrelid::regclass || '.' || attname || ' ' || attacl::text
  FROM pg_attribute WHERE attacl IS NOT NULL AND attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'ops'::regnamespace)
UNION ALL SELECT oid::regprocedure || ' ' || proowner::regrole || ' ' || coalesce(proacl::text, 'PUBLIC')
  FROM pg_proc WHERE pronamespace = 'ops'::regnamespace
UNION ALL SELECT tablename || ' ' || policyname || ' ' || cmd || ' ' || roles::text || coalesce(qual, '') || coalesce(with_check, '')
  FROM pg_policies WHERE schemaname = 'ops'
ORDER BY 1`

func strs(t *testing.T, db pg.DB, sql string, args ...any) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A second run changes nothing, whoever runs it.
func TestAppliedAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.GrantRoles(t)
	first := strs(t, db.Pool, rightsSQL)
	db.GrantRoles(t)
	if diff := cmp.Diff(first, strs(t, db.Pool, rightsSQL)); diff != "" {
		t.Errorf("after a second run (-first +second):\n%s", diff)
	}
	if _, err := db.PoolAs(t, "rail_migrator").Exec(t.Context(), deploy.Roles); err != nil {
		t.Fatalf("as rail_migrator: %v", err)
	}
	if diff := cmp.Diff(first, strs(t, db.Pool, rightsSQL)); diff != "" {
		t.Errorf("after a run of the migrator (-first +then):\n%s", diff)
	}
}

// What somebody granted by hand to one of the roles, or to everybody, is gone after
// the next run; what belongs to a role of theirs is left alone.
func TestNothingIsGrantedBeside(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.GrantRoles(t)
	first := strs(t, db.Pool, rightsSQL)
	_, err := db.Pool.Exec(t.Context(), `
		GRANT SELECT ON ops.audit_log TO rail_app; GRANT UPDATE (frame) ON ops.matter_frames TO rail_worker;
		GRANT INSERT ON ops.trigger_receipts TO PUBLIC; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ops TO PUBLIC, rail_readonly;
		CREATE FUNCTION ops.later() RETURNS int LANGUAGE sql RETURN 1`)
	if err != nil {
		t.Fatal(err)
	}
	db.GrantRoles(t)
	for _, r := range strs(t, db.Pool, `SELECT oid::regprocedure || ' ' || proacl::text FROM pg_proc WHERE proname = 'later'`) {
		if strings.Contains(r, "{=X") || strings.Contains(r, ",=X") {
			t.Errorf("a new function can be called by everybody: %s", r)
		}
	}
	if _, err := db.Pool.Exec(t.Context(), `DROP FUNCTION ops.later()`); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, strs(t, db.Pool, rightsSQL)); diff != "" {
		t.Errorf("after grants by hand and another run (-want +got):\n%s", diff)
	}
}

// Functions with SECURITY DEFINER run as rail_owner, none finds its words on a path
// that a caller chose (the body of RETURN was bound when it was made), and none is
// everybody's, whether or not the roles exist yet.
func TestFunctionsArePinnedOwnedAndNobodys(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	open := strs(t, db.Pool, `SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'ops'::regnamespace AND (
		proacl IS NULL OR EXISTS (SELECT 1 FROM aclexplode(proacl) a WHERE a.grantee = 0))`)
	if len(open) > 0 {
		t.Errorf("everybody may call %v", open)
	}
	db.GrantRoles(t)
	loose := strs(t, db.Pool, `SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'ops'::regnamespace
		AND prosqlbody IS NULL AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)`)
	if len(loose) > 0 {
		t.Errorf("search_path is not pinned in %v", loose)
	}
	if n := strs(t, db.Pool, `SELECT count(*)::text FROM pg_proc WHERE pronamespace = 'ops'::regnamespace AND prosecdef`); n[0] < "1" {
		t.Error("no function with SECURITY DEFINER: this test looks at nothing")
	}
	for what, sql := range map[string]string{
		"tables":    `SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'ops'::regnamespace AND relowner <> 'rail_owner'::regrole`,
		"functions": `SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'ops'::regnamespace AND proowner <> 'rail_owner'::regrole`,
	} {
		if left := strs(t, db.Pool, sql); len(left) > 0 {
			t.Errorf("%s that are not rail_owner's: %v", what, left)
		}
	}
}

// Every session of a role is bounded, also one that asks for nothing itself.
func TestEveryRoleHasItsTimeouts(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.GrantRoles(t)
	for _, role := range []string{"rail_app", "rail_relay", "rail_worker", "rail_operator", "rail_readonly"} {
		got := strs(t, db.PoolAs(t, role), `SELECT name FROM pg_settings WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout') AND setting = '0'`)
		if len(got) > 0 {
			t.Errorf("%s has no %v", role, got)
		}
	}
}

// From nothing, by a role that is no superuser: it makes the roles, the migrator makes
// the schema, and either applies the grants.
func TestFromNothingWithoutASuperuser(t *testing.T) {
	t.Parallel()
	c := pgtest.Cluster(t, local.Options{})
	ctx := t.Context()
	super := session(t, c.DSN("postgres"))
	for _, sql := range []string{`CREATE ROLE boss LOGIN CREATEROLE NOSUPERUSER`, `CREATE DATABASE rail OWNER boss`} {
		if _, err := super.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	dsn := func(role string) string {
		u, _ := url.Parse(c.DSN("rail")) // our own words
		u.User = url.User(role)
		return u.String()
	}
	boss := session(t, dsn("boss"))
	apply(t, boss)
	migrator := session(t, dsn("rail_migrator"))
	if _, err := (pg.Migrator{Set: pgtest.Ops()}).Up(ctx, migrator); err != nil {
		t.Fatalf("migrate as rail_migrator: %v", err)
	}
	apply(t, migrator)
	first := strs(t, super, `SELECT rolname::text FROM pg_roles WHERE rolname LIKE 'rail\_%' AND NOT rolsuper ORDER BY 1`)
	if len(first) != 7 {
		t.Errorf("roles %v", first)
	}
	inRail := session(t, c.DSN("rail"))
	want := strs(t, inRail, rightsSQL)
	apply(t, boss)
	if diff := cmp.Diff(want, strs(t, inRail, rightsSQL)); diff != "" {
		t.Errorf("boss and migrator differ:\n%s", diff)
	}
	if _, err := session(t, dsn("rail_app")).Exec(ctx, `INSERT INTO ops.domain_event_outbox (firm_id, event_name) VALUES (gen_random_uuid(), 'document.uploaded')`); err != nil {
		t.Errorf("as rail_app: %v", err)
	}
	if _, err := super.Exec(ctx, `ALTER ROLE rail_app BYPASSRLS`); err != nil {
		t.Fatal(err)
	}
	if _, err := boss.Exec(ctx, deploy.Roles); err == nil || !strings.Contains(err.Error(), "rail_app") {
		t.Errorf("a role that passes by row-level security is taken: %v", err)
	}
}

func session(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pg.Connect(t.Context(), pg.Options{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func apply(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), deploy.Roles); err != nil {
		t.Fatalf("apply as %s: %v", conn.Config().User, err)
	}
}
