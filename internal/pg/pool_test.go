package pg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"briefrail/internal/pg"
	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
)

func open(t *testing.T, o pg.Options) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func value(t *testing.T, db pg.DB, sql string, args ...any) string {
	t.Helper()
	var s string
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSessionSettings(t *testing.T) {
	t.Parallel()
	pool := open(t, pg.Options{
		DSN: pgtest.Empty(t).DSN, ApplicationName: "railworker/1",
		StatementTimeout: 3 * time.Second, LockTimeout: 1500 * time.Millisecond, IdleInTransactionTimeout: time.Minute,
	})
	for setting, want := range map[string]string{
		"application_name": "railworker/1", "statement_timeout": "3s", "lock_timeout": "1500ms",
		"idle_in_transaction_session_timeout": "1min",
	} {
		if got := value(t, pool, "select current_setting($1)", setting); got != want {
			t.Errorf("%s = %s, want %s", setting, got, want)
		}
	}
}

func TestPoolerModeLeavesNothingOnTheServer(t *testing.T) {
	t.Parallel()
	pool := open(t, pg.Options{DSN: pgtest.Empty(t).DSN, Pooler: true, StatementTimeout: time.Second, MaxConns: 1})
	for range 3 {
		value(t, pool, "select $1::text", "x")
	}
	if n := value(t, pool, "select count(*)::text from pg_prepared_statements where not statement like '%pg_prepared%'"); n != "0" {
		t.Errorf("%s named statements", n)
	}
	if got := value(t, pool, "show statement_timeout"); got != "0" {
		t.Errorf("statement_timeout = %s", got)
	}
}

func TestASessionKeepsOnlySoManyStatements(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Empty(t).DSN
	const asked = 40
	for cache, want := range map[int]int{0: asked, 4: 4} {
		pool := open(t, pg.Options{DSN: dsn, StatementCache: cache, MaxConns: 1})
		for i := range asked {
			value(t, pool, fmt.Sprintf("select $1::text || '%d'", i), "x")
		}
		var kept int
		// sent without being prepared, so that it does not count itself
		err := pool.QueryRow(t.Context(), "select count(*) from pg_prepared_statements", pgx.QueryExecModeSimpleProtocol).Scan(&kept)
		if err != nil || kept != want {
			t.Errorf("cache %d: %d statements are prepared on the server, want %d; %v", cache, kept, want, err)
		}
	}
}

// Field report 5: a session that cannot write is never handed out again.
func TestReadOnlySessionsAreDiscarded(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	reg := prometheus.NewRegistry()
	pool := open(t, pg.Options{DSN: d.DSN, MaxConns: 4, Metrics: pg.NewMetrics(reg)})
	for _, how := range []string{
		"set default_transaction_read_only = on",
		"set session characteristics as transaction read only",
	} {
		old := value(t, pool, "select pg_backend_pid()::text")
		if _, err := pool.Exec(t.Context(), how); err != nil {
			t.Fatal(err)
		}
		if got := value(t, pool, "select pg_backend_pid()::text"); got == old {
			t.Errorf("after %q the same session came back", how)
		}
		if _, err := pool.Exec(t.Context(), "create table if not exists t (id int)"); err != nil {
			t.Errorf("after %q: %v", how, err)
		}
	}
	if got := counter(t, reg, "rail_db_read_only_sessions_total"); got != 2 {
		t.Errorf("read-only sessions = %v", got)
	}
}

// Field report 5: the server says 25006 before it has reported anything.
func TestRefusedWriteSpoilsTheSession(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	pool := open(t, pg.Options{DSN: pgtest.Empty(t).DSN, MaxConns: 1, Metrics: pg.NewMetrics(reg)})
	old := value(t, pool, "select pg_backend_pid()::text")
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "set transaction read only"); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), "create table t (id int)")
		return err
	})
	if !pg.IsReadOnly(err) || !pg.IsTransient(err) || pg.Class(err) != "25" {
		t.Errorf("err = %v", err)
	}
	if got := value(t, pool, "select pg_backend_pid()::text"); got == old {
		t.Error("the refused session came back")
	}
	if got := counter(t, reg, "rail_db_read_only_sessions_total"); got != 1 {
		t.Errorf("read-only sessions = %v", got)
	}
}

// Field report 5: half of the sessions are cut by the server.
func TestPoolRecoversFromTerminatedSessions(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	pool := open(t, pg.Options{DSN: d.DSN, MaxConns: 3})
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Pool.Exec(t.Context(), "select pg_terminate_backend($1)", int32(conn.Conn().PgConn().PID())); err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), "select 1")
	conn.Release()
	if !pg.IsTransient(err) {
		t.Errorf("not transient: %v", err)
	}
	value(t, pool, "select 'back'")
}

// Field report 5: a demoted server is refused at connect, and used again by itself
// once it takes writes.
func TestReadOnlyServerIsRefusedAtConnect(t *testing.T) {
	t.Parallel()
	c := pgtest.Cluster(t, local.Options{Settings: map[string]string{"max_connections": "20"}})
	reg := prometheus.NewRegistry()
	pool := open(t, pg.Options{DSN: c.DSN("postgres"), MaxConns: 2, Metrics: pg.NewMetrics(reg)})
	value(t, pool, "select 'writes'")
	admin := open(t, pg.Options{DSN: c.DSN("postgres"), MaxConns: 1, ReadOnlyOK: true})
	takesWrites(t, admin, false)
	eventually(t, func() bool {
		_, err := pool.Exec(t.Context(), "create table if not exists t (id int)")
		return pg.IsReadOnly(err) && strings.Contains(err.Error(), "read only")
	})
	if _, err := pool.Acquire(t.Context()); !pg.IsReadOnly(err) || !pg.IsTransient(err) || pg.IsUnknownOutcome(err) {
		t.Errorf("acquire: %v", err)
	}
	takesWrites(t, admin, true)
	eventually(t, func() bool {
		_, err := pool.Exec(t.Context(), "create table if not exists t (id int)")
		return err == nil
	})
	if counter(t, reg, "rail_db_read_only_sessions_total") == 0 {
		t.Error("nothing was counted")
	}
}

func TestPoolRecoversWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	c := pgtest.Cluster(t, local.Options{})
	pool := open(t, pg.Options{DSN: c.DSN("postgres"), MaxConns: 2, ConnectTimeout: time.Second})
	value(t, pool, "select 'up'")
	c.Kill()
	_, err := pool.Exec(t.Context(), "select 1")
	if !pg.IsTransient(err) {
		t.Errorf("not transient: %v", err)
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	value(t, pool, "select 'up again'")
}

// Field report 6: an exhausted pool is an error in bounded time.
func TestAcquireHasADeadline(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	pool := open(t, pg.Options{DSN: pgtest.Empty(t).DSN, MaxConns: 1, AcquireTimeout: 50 * time.Millisecond, Metrics: pg.NewMetrics(reg)})
	err := pool.AcquireFunc(t.Context(), func(*pgxpool.Conn) error {
		_, err := pool.Exec(t.Context(), "select 1")
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) || !pg.IsTransient(err) {
		t.Errorf("err = %v", err)
	}
	value(t, pool, "select 'free again'")
	want := "# HELP rail_db_errors_total Statements and connection attempts that failed, by SQLSTATE class; client is everything without an SQLSTATE.\n" +
		"# TYPE rail_db_errors_total counter\n"
	for _, c := range pg.Classes() {
		n := "0"
		if c == "client" {
			n = "1"
		}
		want += `rail_db_errors_total{class="` + c + `"} ` + n + "\n"
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "rail_db_errors_total"); err != nil {
		t.Error(err)
	}
}

func TestCollectorReadsThePool(t *testing.T) {
	t.Parallel()
	pool := open(t, pg.Options{DSN: pgtest.Empty(t).DSN, MaxConns: 3})
	value(t, pool, "select 'one'")
	reg := prometheus.NewRegistry()
	reg.MustRegister(pg.NewCollector("work", pool), pg.NewCollector("probe", pool))
	if n, err := testutil.GatherAndCount(reg); err != nil || n != 16 {
		t.Errorf("%d series, %v", n, err)
	}
	if got := counter(t, reg, "rail_db_pool_max_conns"); got != 3 {
		t.Errorf("max conns = %v", got)
	}
}

func TestPasswordIsAskedForEachConnection(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	pool := open(t, pg.Options{
		DSN: pgtest.Empty(t).DSN, MaxConns: 1,
		Password: func(context.Context) (string, error) { asked.Add(1); return "secret", nil },
	})
	value(t, pool, "select 'one'")
	pool.Reset()
	value(t, pool, "select 'two'")
	if asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
}

func TestBadConnectionStringIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"postgres://u:hunter2@h:notaport/db", "postgres://u:hun/ter2@h/db", "hunter2", "host=x password='hunter2", "host=h sslmode=hunter2"} {
		_, err := pg.Open(t.Context(), pg.Options{DSN: dsn})
		if err == nil || strings.Contains(err.Error(), "hun") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("did not happen in time")
		}
	}
}

func counter(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// stall is a proxy in front of a server that can stop the server's answers.
type stall struct {
	addr    string
	stalled atomic.Bool
}

func newStall(t *testing.T, server string) *stall {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stall{addr: l.Addr().String()}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(up, client); _ = up.Close() }()
			go func() { _, _ = io.Copy(s.gate(client), up); _ = client.Close() }()
		}
	}()
	return s
}

type gate struct {
	net.Conn
	s *stall
}

func (s *stall) gate(c net.Conn) io.Writer { return gate{c, s} }

// Write swallows the answer while the proxy is stalled: to the client that is a
// connection on which nothing arrives.
func (g gate) Write(b []byte) (int, error) {
	if g.s.stalled.Load() {
		return len(b), nil
	}
	return g.Conn.Write(b)
}
