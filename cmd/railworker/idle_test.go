package main

import (
	"strconv"
	"testing"
	"time"

	"briefrail/internal/pg/pgtest"
)

// An idle worker asks at most five queries a second, however many matters there
// are. Every round trip to the server counts, pings included.
func TestIdleWorkerAsksLittle(t *testing.T) {
	t.Parallel()
	const most = 5.0
	matters := sized(20_000, 1_000_000)
	db := pgtest.New(t)
	seedIdle(t, db, matters)
	p, dsn := through(t, db.DSN)
	s := quick(dsn, "http://127.0.0.1:1/")
	for _, k := range []string{"POLL_MAX_IDLE", "SWEEP_EVERY", "LEASE_DURATION", "CANARY_EVERY", "DATABASE_MAX_CONNS"} {
		delete(s, k) // as users run it
	}
	w := startWorker(t, s)
	eventually(t, time.Minute, "ready", w.ready)
	eventually(t, 2*time.Minute, "the first canary has landed", func() bool { return w.metric("rail_canary_last_success_timestamp_seconds") > 0 })
	// what a start asks for once, and every invariant of all that is kept is the last of it
	pass(t, time.Duration(sized(5, 75))*time.Second)
	asked := func() int64 { return p.asked.Load() - p.pinged.Load() }
	before, pings, begun := asked(), p.pinged.Load(), time.Now()
	pass(t, time.Duration(sized(10, 60))*time.Second) // a whole one between two canaries
	took := time.Since(begun).Seconds()
	rate := float64(asked()-before) / took
	t.Logf("%d idle matters: %.2f queries a second, and %.2f pings", matters, rate, float64(p.pinged.Load()-pings)/took)
	if rate > most {
		t.Errorf("%.2f queries a second, at most %.0f", rate, most)
	}
}

// seedIdle makes matters that have landed once: rows as they are after a landing,
// written without the guards, as a million landings would take too long.
func seedIdle(t *testing.T, db *pgtest.DB, n int) {
	t.Helper()
	c, err := db.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	for _, sql := range []string{
		`SET session_replication_role = replica`,
		`SET statement_timeout = 0`,
		`INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status, requested_generation, claimed_generation, landed_generation)
		 SELECT md5('firm' || i % 1000)::uuid, gen_random_uuid(), 'idle', 2, 2, 2 FROM generate_series(1, ` + strconv.Itoa(n) + `) i`,
		`RESET session_replication_role`,
		`VACUUM ANALYZE ops.matter_frame_jobs`,
	} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}
