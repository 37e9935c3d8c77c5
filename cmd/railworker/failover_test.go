package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
)

// field report 5: sessions that stop taking writes, as after a failover, and
// sessions that are cut in the middle of a query. The worker is not ready but alive
// meanwhile, and back within a lease without a restart.
func TestSessionsThatTurnReadOnlyOrDie(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second
	cluster := pgtest.Cluster(t, local.Options{Settings: map[string]string{"shared_buffers": "64MB"}})
	db := pgtest.NewOn(t, cluster, pgtest.Ops())
	builder := serve(t, slow(100*time.Millisecond))
	w := startWorker(t, quick(db.DSN, builder.URL).with(settings{"LEASE_DURATION": lease.String(), "RETRY_MAX_ATTEMPTS": "50", "FRAMES_KEEP": "1000"}))
	admin, producer := writable(t, db.DSN), writable(t, db.DSN)
	loading, stop := context.WithCancel(t.Context())
	loaded := make(chan struct{})
	go func() { defer close(loaded); trickle(loading, producer) }()
	eventually(t, 20*time.Second, "it lands", func() bool { return landed(t, admin) > 3 })

	setReadOnly(t, db.DSN, "on")
	eventually(t, 10*time.Second, "not ready while nothing can be written", func() bool {
		code, body := w.probe("/readyz?verbose")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "[-] database-writable")
	})
	if code, body := w.probe("/livez"); code != http.StatusOK {
		t.Errorf("livez: %d %s", code, body)
	}
	if n := w.metric("rail_db_read_only_sessions_total"); n < 1 {
		t.Errorf("%v read-only sessions counted", n)
	}
	setReadOnly(t, db.DSN, "off")
	assertBack(t, w, admin, lease, "writes were possible again")

	for range 5 {
		if _, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'railworker%'`); err != nil {
			t.Fatal(err)
		}
		pass(t, 150*time.Millisecond)
	}
	assertBack(t, w, admin, lease, "every session was cut, five times")
	stop()
	<-loaded
	awaitQuiet(t, db.Pool, 30*time.Second)
	assertCurrent(t, db.Pool)
	if w.gone() {
		t.Error("the worker ended")
	}
}

// assertBack expects a further landing and readiness within a lease.
func assertBack(t *testing.T, w *process, db *pgx.Conn, lease time.Duration, since string) {
	t.Helper()
	begun, before := time.Now(), landed(t, db)
	eventually(t, lease, "landing again after "+since, func() bool { return landed(t, db) > before })
	eventually(t, lease, "ready again after "+since, w.ready)
	t.Logf("back %s after %s", time.Since(begun).Round(time.Millisecond), since)
}

func landed(t *testing.T, db *pgx.Conn) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM ops.matter_frame_runs WHERE outcome = 'landed'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// writable is a session of its own that stays writable whatever is the default.
func writable(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn+"&default_transaction_read_only=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// setReadOnly changes the default of every session of the server, those in pools
// included.
func setReadOnly(t *testing.T, dsn, value string) {
	t.Helper()
	c := writable(t, dsn)
	for _, sql := range []string{"ALTER SYSTEM SET default_transaction_read_only = " + value, "SELECT pg_reload_conf()"} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// trickle tells of one document after the other until ctx ends.
func trickle(ctx context.Context, db *pgx.Conn) {
	keys := newKeys(3, 30)
	for i := 0; ctx.Err() == nil; i++ {
		k := keys[i%len(keys)]
		// the last one may be cut by the end: it is committed or not, either is right
		_, _ = db.Exec(ctx, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, $3)`, k.Firm, k.Matter, uploaded)
		rest(ctx, 20*time.Millisecond)
	}
}
