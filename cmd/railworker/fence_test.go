package main

import (
	"testing"
	"time"

	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// configured gives authority over every matter to a writer named old, with two roles that
// nobody has.
func configured(t *testing.T, db *pgtest.DB) {
	t.Helper()
	do(t, db, `SELECT ops.register_writer('rail', 'rail', ARRAY['rail_worker'], NULL, NULL, 'test', 'a test')`)
	do(t, db, `SELECT ops.register_writer('old', 'external', ARRAY['rail_app'], NULL, 'http://old.example/', 'test', 'a test')`)
	do(t, db, `SELECT ops.configure_fences(ARRAY(SELECT ops.fence_scope(b::smallint) FROM generate_series(0, 63) b), 'old', 'test', 'a test')`)
}

// A controller dies right after closing, for good. Any daemon that starts gives the
// scope back, and says so under its own name.
func TestADaemonTakesBackWhatNobodyFinishes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.GrantRoles(t)
	configured(t, db)
	id := rail.NewUUID()
	for _, sql := range []string{
		`SELECT ops.plan_change($1, 'matters/bucket-07', 'rail', NULL, '{"deadline_ms": 100}', '{}', 'test', 'a test')`,
		`SELECT ops.shadow_change($1, '{}', 'test', 'a test')`,
		`SELECT ops.close_scope($1, 'test', 'a test')`,
	} {
		do(t, db, sql, id)
	}
	w := startWorker(t, quick(db.As(t, "rail_worker"), serve(t, nil).URL).with(settings{"WORKER_NAME": "night-shift"}))
	eventually(t, time.Minute, "the scope is open again", func() bool {
		return one[string](t, db.Pool, `SELECT state FROM ops.write_fences WHERE scope = 'matters/bucket-07'`) == "open"
	})
	got := one[string](t, db.Pool, `SELECT outcome || ' by ' || ended_by FROM ops.write_fence_changes WHERE change_id = $1`, id)
	if want := "aborted by " + w.log.field("started", "worker"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := one[int64](t, db.Pool, `SELECT epoch FROM ops.write_fences WHERE scope = 'matters/bucket-07'`); n != 1 {
		t.Errorf("reopened under epoch %d", n)
	}
}

// A right that a retired writer finds again is on the metric that pages, and so is that
// it was taken away.
func TestAWayOfARetiredWriterIsSeen(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.GrantRoles(t)
	configured(t, db)
	role := "rail_t_gone_" + rail.NewUUID().String()[:8]
	do(t, db, `CREATE ROLE `+role)
	do(t, db, `SELECT ops.register_writer('gone', 'external', ARRAY['`+role+`'], NULL, 'http://gone.example/', 'test', 'a test')`)
	do(t, db, `CREATE TABLE public.its_briefs (matter_id uuid PRIMARY KEY)`)
	do(t, db, `SELECT ops.guard_table('public.its_briefs', 'matter_id', NULL, 'gone', NULL, NULL, 'test', 'a test')`)
	do(t, db, `SELECT ops.retire_writer('gone', 'test', 'a test')`)
	do(t, db, `GRANT INSERT ON public.its_briefs TO `+role)
	w := startWorker(t, quick(db.As(t, "rail_worker"), serve(t, nil).URL))
	eventually(t, time.Minute, "the hole is seen", func() bool { return w.metric("rail_retired_paths_open") == 1 })
	if n := one[int64](t, db.Pool, `SELECT count(*) FROM ops.write_fence_holds WHERE watch = 'retired_paths' AND released_at IS NULL`); n != 1 {
		t.Errorf("%d holds", n)
	}
	do(t, db, `REVOKE INSERT ON public.its_briefs FROM `+role)
	eventually(t, time.Minute, "it is closed", func() bool { return w.metric("rail_retired_paths_open") == 0 })
}

func do(t *testing.T, db *pgtest.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
