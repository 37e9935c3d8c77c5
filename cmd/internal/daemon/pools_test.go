package daemon

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/config"
	"briefrail/internal/pg/pgtest"
)

// What database.statement_cache says is what a session of either pool keeps, and 0
// leaves nothing on a server that may be a pooler's.
func TestStatementCacheReachesBothPools(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Empty(t).DSN
	for _, program := range []config.Component{config.Worker, config.Relay} {
		for set, want := range map[int]int{0: 0, 3: 3, 50: 20} {
			p := openPools(t, program, dsn, fmt.Sprintf("RAIL_DATABASE_STATEMENT_CACHE=%d", set))
			for name, pool := range map[string]*pgxpool.Pool{"work": p.Work, "probe": p.Probes} {
				if got := pool.Config().ConnConfig.StatementCacheCapacity; set > 0 && got != set {
					t.Errorf("%s, pool %s: capacity %d of a setting of %d", program, name, got, set)
				}
				if got := keptOf(t, pool, 20); got != want {
					t.Errorf("%s, pool %s: %d of 20 statements are kept with a setting of %d, want %d", program, name, got, set, want)
				}
			}
		}
	}
}

func openPools(t *testing.T, program config.Component, dsn string, more ...string) Pools {
	t.Helper()
	env := append([]string{
		"RAIL_DATABASE_URL=" + dsn, "RAIL_BUILDER_HTTP_URL=http://127.0.0.1:1/",
		"RAIL_RELAY_SINKS=[sqs]", "RAIL_RELAY_QUEUE_URL=http://127.0.0.1:1/000000000000/brief",
	}, more...)
	cfg, err := config.Load(config.Source{Component: program, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(t.Context(), cfg, "test", prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// keptOf asks n different statements of one session and counts those that the server
// has prepared for it afterwards.
func keptOf(t *testing.T, pool *pgxpool.Pool, n int) (kept int) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for i := range n {
		var got int
		if err := conn.QueryRow(t.Context(), fmt.Sprintf("SELECT $1::int + %d", i), 1).Scan(&got); err != nil {
			t.Fatal(err)
		}
	}
	// sent without being prepared, so that it does not count itself
	err = conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements", pgx.QueryExecModeSimpleProtocol).Scan(&kept)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}
