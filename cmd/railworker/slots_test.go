package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
)

// sessions is what pg_stat_activity showed of a worker over time.
type sessions struct {
	most, probes int
	samples      int
	longest      time.Duration // idle in transaction
}

// watchSessions samples until ctx ends.
func watchSessions(ctx context.Context, db pg.DB) (s sessions) {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s
		case <-tick.C:
		}
		var work, probes int
		var idle float64
		err := db.QueryRow(ctx, `SELECT count(*) FILTER (WHERE application_name LIKE 'railworker/%'), count(*) FILTER (WHERE application_name LIKE 'railworker-probe/%'),
			coalesce(max(extract(epoch FROM clock_timestamp() - state_change)) FILTER (WHERE state LIKE 'idle in transaction%'), 0)::float8
			FROM pg_stat_activity WHERE datname = current_database()`).Scan(&work, &probes, &idle)
		if err == nil {
			s.most, s.probes, s.samples = max(s.most, work), max(s.probes, probes), s.samples+1
			s.longest = max(s.longest, time.Duration(idle*float64(time.Second)))
		}
	}
}

// 500 builds in flight need no more sessions than five, no open transaction, and
// their leases are renewed for as long as they last.
func TestManyBuildsOnFiveSessions(t *testing.T) {
	t.Parallel()
	const builds = 500
	db := pgtest.New(t)
	hold := newHeld()
	builder := serve(t, hold.script)
	w := startWorker(t, manySlots(db.DSN, builder.URL))
	watching, stop := context.WithCancel(t.Context())
	seen := make(chan sessions, 1)
	go func() { seen <- watchSessions(watching, db.Pool) }()
	tell(t, db.Pool, uploaded, newKeys(10, builds)...)
	eventually(t, time.Minute, "all are in flight", func() bool { return builder.count() == builds })
	pass(t, 21*time.Second) // more than two leases
	if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'running' AND attempts = 1 AND lease_expires_at > clock_timestamp()`); n != builds {
		t.Errorf("%d claims hold their first lease", n)
	}
	if n := w.metric("rail_worker_slots_in_use"); n != builds {
		t.Errorf("%v slots in use", n)
	}
	released := time.Now()
	hold.release()
	awaitQuiet(t, db.Pool, time.Minute)
	t.Logf("all landed %s after the release", time.Since(released).Round(time.Millisecond))
	stop()
	s := <-seen
	t.Logf("sessions: at most %d and %d probes in %d samples; longest idle in transaction %s", s.most, s.probes, s.samples, s.longest)
	if s.most > 5 || s.probes > 2 || s.samples < 50 {
		t.Errorf("sessions %+v", s)
	}
	if s.longest > time.Second {
		t.Errorf("a session was idle in transaction for %s", s.longest)
	}
	assertCurrent(t, db.Pool)
	if n := builder.count(); n != builds {
		t.Errorf("%d builder calls", n)
	}
}

func manySlots(db, builder string) settings {
	return quick(db, builder).with(settings{"WORKER_SLOTS": "500", "LEASE_DURATION": "10s", "DATABASE_MAX_CONNS": "5", "SETTLE_QUIET": "0"})
}

// The memory of a plain binary, as users run it: the race detector's is many times
// as much.
func TestMemoryOfManyBuilds(t *testing.T) {
	t.Parallel()
	const builds, limit = 500, 150 << 20
	binary := filepath.Join(t.TempDir(), "railworker")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build does it, so that the cache serves both
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	db := pgtest.New(t)
	hold := newHeld()
	builder := serve(t, hold.script)
	w := launchBinary(t, binary, manySlots(db.DSN, builder.URL), "run")
	w.awaitStart(t)
	idle := resident(t, w)
	tell(t, db.Pool, uploaded, newKeys(10, builds)...)
	eventually(t, time.Minute, "all are in flight", func() bool { return builder.count() == builds })
	pass(t, 3*time.Second)
	busy := resident(t, w)
	hold.release()
	awaitQuiet(t, db.Pool, time.Minute)
	landed := resident(t, w)
	t.Logf("resident: %d MiB at start, %d MiB with %d builds in flight, %d MiB after all landed", idle>>20, busy>>20, builds, landed>>20)
	if busy > limit || landed > limit {
		t.Errorf("resident %d and %d bytes, at most %d", busy, landed, limit)
	}
}

// resident is VmRSS in bytes.
func resident(t *testing.T, p *process) (n int64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skip("no /proc on this system: resident memory is not measured")
	}
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &n); err == nil {
			return n << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
