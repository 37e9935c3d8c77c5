package pg_test

import (
	"errors"
	"testing"
	"time"

	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
)

// Behind a transaction-mode pooler a pool works in Pooler mode only, and is refused
// otherwise, whether the pooler takes settings or swallows them.
func TestPoolerIsUsedAsOneOrRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	strict := db.Pooler(t, nil)
	lax := db.Pooler(t, map[string]string{
		"ignore_startup_parameters": "default_transaction_isolation,statement_timeout,lock_timeout,idle_in_transaction_session_timeout",
	})
	timeout := pg.Options{MaxConns: 4, StatementTimeout: time.Second}
	for name, c := range map[string]struct {
		dsn    string
		pooler bool
		want   error
	}{
		"direct":                           {db.DSN, false, nil},
		"direct, as if pooled":             {db.DSN, true, nil},
		"strict pooler":                    {strict(db.DSN), false, pg.ErrPooler},
		"strict pooler, used as one":       {strict(db.DSN), true, nil},
		"pooler that swallows":             {lax(db.DSN), false, pg.ErrPooler},
		"pooler that swallows, used right": {lax(db.DSN), true, nil},
	} {
		o := timeout
		o.DSN, o.Pooler = c.dsn, c.pooler
		pool := open(t, o)
		if err := pg.CheckPooler(t.Context(), pool); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		} else if pg.IsTransient(err) {
			t.Errorf("%s: somebody would wait for this to pass: %v", name, err)
		}
		var n int
		if err := pool.QueryRow(t.Context(), `SELECT $1::int + 1`, 1).Scan(&n); c.want == nil && (err != nil || n != 2) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

// The lock that keeps two migrators apart is a session's, so a pooler of any mode is
// refused before it is asked for.
func TestMigratorRefusesAPooler(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	for _, mode := range []string{"transaction", "session"} {
		through := db.Pooler(t, map[string]string{"pool_mode": mode})
		conn, err := pg.Connect(t.Context(), pg.Options{DSN: through(db.DSN), Pooler: true})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := (pg.Migrator{Set: pgtest.Ops()}).Up(t.Context(), conn); !errors.Is(err, pg.ErrPooler) || n != 0 {
			t.Errorf("%s mode: %d migrations, %v", mode, n, err)
		}
		_ = conn.Close(t.Context())
	}
	if v, err := pg.Version(t.Context(), db.Pool, "ops"); v != 0 || err != nil {
		t.Errorf("the schema is at version %d, %v", v, err)
	}
}
