package main

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/audit"
	"briefrail/internal/pg"
	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// onHosts is a DSN with the ports of several servers of this machine.
func onHosts(t *testing.T, dsn string, ports ...int) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	hosts := make([]string, len(ports))
	for i, p := range ports {
		hosts[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(p))
	}
	u.Host = strings.Join(hosts, ",")
	return u.String()
}

// follower is an asynchronous standby of a cluster, and the database on it.
func follower(t *testing.T, primary *local.Cluster, db *pgtest.DB) (*local.Cluster, *pgtest.DB) {
	t.Helper()
	standby, err := primary.Standby(t.Context(), local.Options{Settings: map[string]string{"shared_buffers": "64MB"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := standby.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	dsn := onHosts(t, db.DSN, standby.Port)
	pool, err := pg.Open(t.Context(), pg.Options{DSN: dsn, ReadOnlyOK: true, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return standby, &pgtest.DB{DSN: dsn, Pool: pool}
}

// cutOff ends the replication to a standby: what is committed from now on it will lack.
func cutOff(t *testing.T, standby, primary *pgtest.DB) {
	t.Helper()
	for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		if _, err := standby.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 2*time.Minute, "the replication has ended", func() bool {
		return one[int](t, primary.Pool, `SELECT count(*) FROM pg_stat_replication`) == 0
	})
}

// readOnlyAsk is a session that reads from a server which takes no writes.
func readOnlyAsk(t *testing.T, dsn, sql string) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	if err := c.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// An asynchronous standby that lacks the last commits is promoted, and the old node is
// left up, read-only. The worker, which knows both, moves over by itself; its build of
// a claim that the new primary never saw is refused; the alarm tells of it and the
// runbook ends it.
func TestLossyFailoverToAStandby(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Cluster(t, local.Options{Settings: map[string]string{"shared_buffers": "64MB"}})
	db := pgtest.NewOn(t, cluster, pgtest.Ops())
	standby, next := follower(t, cluster, db)
	builds := &holding{kept: map[rail.Key]*held{}}
	builder := serve(t, builds.script)
	// unrenewed, so that a build finds out by its landing and not before
	s := quick(onHosts(t, db.DSN, cluster.Port, standby.Port), builder.URL).with(settings{
		"LEASE_RENEW": "off", "BUILDER_TIMEOUT": "60s", "LEASE_DURATION": "91s", "RETRY_MAX_ATTEMPTS": "100",
	})
	ops := newOperator(t, s, nil)
	w := startWorker(t, s)
	r := &wholeRail{db: next, builder: builder, workers: []*process{w}}

	keys := newKeys(2, 4)
	tell(t, db.Pool, uploaded, keys...)
	awaitQuiet(t, db.Pool, 2*time.Minute)
	eventually(t, 2*time.Minute, "the standby has followed", func() bool { return peek[bool](t.Context(), next.Pool, quietSQL) })
	cutOff(t, next, db)
	lost := newKeys(1, 2)
	tell(t, db.Pool, uploaded, append(lost, keys[1])...)
	awaitQuiet(t, db.Pool, 2*time.Minute)
	zombie := keys[0]
	stale := builds.keep(zombie)
	tell(t, db.Pool, uploaded, zombie)
	builder.builds(t, zombie, 2)
	future := one[[]rail.UUID](t, db.Pool, `SELECT array_agg(run_id) FROM ops.matter_frame_runs WHERE generation > 2 OR matter_id = ANY ($1)`, []rail.UUID{lost[0].Matter, lost[1].Matter})

	setReadOnly(t, db.DSN, "on")
	defer func() { // the test's database is dropped there
		w.kill()
		setReadOnly(t, db.DSN, "off")
	}()
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	assertMovedOver(t, r, db, func() { assertNothingStaleLands(t, r, builds, stale, zombie) })
	said := assertFailoverIsTold(t, r, ops)
	ops.follow(t, said.Since)
	awaitQuiet(t, next.Pool, 2*time.Minute)
	assertHealed(t, next)
	assertFrames(t, next, keys, future)
	eventually(t, 2*time.Minute, "the alarm ends with the epoch", func() bool {
		return w.metric("rail_ledger_changed") == 0 && w.metric("rail_ledger_epoch") == 2
	})
	if w.gone() {
		t.Error("the worker ended")
	}
}

// assertMovedOver: the worker is ready on the new primary by itself, and what it does
// there leaves no session and no frame on the old node.
func assertMovedOver(t *testing.T, r *wholeRail, old *pgtest.DB, work func()) {
	t.Helper()
	w, begun := r.workers[0], time.Now()
	eventually(t, 2*time.Minute, "ready on the new primary", w.ready)
	t.Logf("ready %s after the promotion", time.Since(begun).Round(time.Millisecond))
	const framesSQL = `SELECT count(*) FROM ops.matter_frames`
	before := readOnlyAsk(t, old.DSN, framesSQL)
	work()
	if n := w.metric("rail_db_read_only_sessions_total"); n < 1 {
		t.Errorf("%v read-only sessions counted", n)
	}
	eventually(t, 2*time.Minute, "no session of the worker on the old node", func() bool {
		return readOnlyAsk(t, old.DSN, `SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'railworker%'`) == 0
	})
	if after := readOnlyAsk(t, old.DSN, framesSQL); after != before {
		t.Errorf("%d frames on the old node, were %d", after, before)
	}
}

// assertFailoverIsTold: metric, doctor and restore-check say what happened.
func assertFailoverIsTold(t *testing.T, r *wholeRail, ops operator) rewound {
	t.Helper()
	eventually(t, 2*time.Minute, "the alarm of the ledger's identity", func() bool { return r.workers[0].metric("rail_ledger_changed") == 1 })
	if state := diagnosis(t, r.db, "ledger_identity"); state != audit.Fail {
		t.Errorf("ledger_identity is %s", state)
	}
	code, said := ops.restoreCheck(t)
	if code != 6 || !said.Changed || !said.Next.Due {
		t.Errorf("restore-check: exit %d, %+v", code, said)
	}
	return said
}
