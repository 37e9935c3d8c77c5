package pg_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg"
	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
)

// takesWrites switches a whole server, the sessions in pools included.
func takesWrites(t *testing.T, admin pg.DB, yes bool) {
	t.Helper()
	readOnly := "on"
	if yes {
		readOnly = "off"
	}
	for _, sql := range []string{"alter system set default_transaction_read_only = " + readOnly, "select pg_reload_conf()"} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

func acquire(t *testing.T, pool *pgxpool.Pool) (c *pgxpool.Conn) {
	t.Helper()
	eventually(t, func() bool {
		var err error
		c, err = pool.Acquire(t.Context())
		return err == nil
	})
	return c
}

// A session that was in use while another found its server read-only comes back
// beneath a newer one, where no acquire would look at it. It must not stay there.
func TestASessionInUseDoesNotOutliveItsServersOffice(t *testing.T) {
	t.Parallel()
	c := pgtest.Cluster(t, local.Options{Settings: map[string]string{"max_connections": "20"}})
	admin := open(t, pg.Options{DSN: c.DSN("postgres"), MaxConns: 1, ReadOnlyOK: true})
	pool := open(t, pg.Options{DSN: c.DSN("postgres"), MaxConns: 2, MaxConnIdleTime: time.Hour})
	old := acquire(t, pool)
	pid := old.Conn().PgConn().PID()
	value(t, pool, "select 'beside it'")
	takesWrites(t, admin, false)
	eventually(t, func() bool {
		_, err := pool.Exec(t.Context(), "select 1")
		return pg.IsReadOnly(err)
	})
	takesWrites(t, admin, true)
	newer := acquire(t, pool)
	old.Release()
	newer.Release()
	eventually(t, func() bool {
		return value(t, admin, "select count(*)::text from pg_stat_activity where pid = $1", int32(pid)) == "0"
	})
	value(t, pool, "select 'goes on'")
}

// Nothing is asked on sessions that lie unused, so that nobody can find out whether
// their server still takes writes: they go.
func TestASessionThatNobodyUsesIsClosed(t *testing.T) {
	t.Parallel()
	d := pgtest.Empty(t)
	pool := open(t, pg.Options{
		DSN: d.DSN, MaxConns: 3, ApplicationName: "unused", MaxConnIdleTime: 20 * time.Millisecond, HealthCheckPeriod: 10 * time.Millisecond,
	})
	var used []*pgxpool.Conn
	for range 3 {
		used = append(used, acquire(t, pool))
	}
	const left = "select count(*)::text from pg_stat_activity where application_name = 'unused' and datname = current_database()"
	if n := value(t, d.Pool, left); n != "3" {
		t.Errorf("%s sessions while three are in use", n)
	}
	for _, c := range used {
		c.Release()
	}
	eventually(t, func() bool { return value(t, d.Pool, left) == "0" })
	value(t, pool, "select 'opened again'")

	usual := open(t, pg.Options{DSN: d.DSN}).Config()
	if stays := usual.MaxConnIdleTime + usual.HealthCheckPeriod; stays > 20*time.Second {
		t.Errorf("by default an unused session stays for up to %s", stays)
	}
}
