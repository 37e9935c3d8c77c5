package main

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// What database.statement_cache says is what a session of railctl keeps, and 0 leaves
// nothing on a server that may be a pooler's.
func TestStatementCacheReachesTheSession(t *testing.T) {
	r := newRig(t)
	for set, want := range map[int]int{0: 0, 3: 3, 50: 20} {
		a := &app{env: append(r.env, fmt.Sprintf("RAIL_DATABASE_STATEMENT_CACHE=%d", set))}
		pool, err := a.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		direct, err := a.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer direct.Close(t.Context())
		pooled, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer pooled.Release()
		for name, conn := range map[string]*pgx.Conn{"pool": pooled.Conn(), "direct": direct} {
			if got := conn.Config().StatementCacheCapacity; set > 0 && got != set {
				t.Errorf("%s: capacity %d of a setting of %d", name, got, set)
			}
			if got := keptOf(t, conn, 20); got != want {
				t.Errorf("%s: %d of 20 statements are kept with a setting of %d, want %d", name, got, set, want)
			}
		}
	}
}

// keptOf asks n different statements of a new session and counts those that the
// server has prepared for it afterwards.
func keptOf(t *testing.T, conn *pgx.Conn, n int) (kept int) {
	t.Helper()
	if err := conn.DeallocateAll(t.Context()); err != nil { // the look at the schema
		t.Fatal(err)
	}
	for i := range n {
		var got int
		if err := conn.QueryRow(t.Context(), fmt.Sprintf("SELECT $1::int + %d", i), 1).Scan(&got); err != nil {
			t.Fatal(err)
		}
	}
	// sent without being prepared, so that it does not count itself
	err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements", pgx.QueryExecModeSimpleProtocol).Scan(&kept)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}
