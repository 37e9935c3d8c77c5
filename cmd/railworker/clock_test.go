package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
)

// field report 3: the database's clock is 20 minutes ahead of the workers', or behind.
// Every instant that is stored or compared is the database's, so that nothing but the
// exported skew shows it.
func TestDatabaseWithAnotherClock(t *testing.T) {
	t.Parallel()
	library := faketime(t)
	for _, off := range []time.Duration{20 * time.Minute, -20 * time.Minute} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			c := pgtest.Cluster(t, local.Options{
				Env: []string{
					"LD_PRELOAD=" + library, fmt.Sprintf("FAKETIME=%+d", int(off.Seconds())),
					// the server's own waits and files keep the true clock
					"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1",
				},
				Settings: map[string]string{"max_connections": "60"},
			})
			fresh := func() *pgtest.DB { return pgtest.NewOn(t, c, pgtest.Ops()) }
			db := fresh()
			if got := time.Until(one[time.Time](t, db.Pool, `SELECT clock_timestamp()`)); (got - off).Abs() > 10*time.Second {
				t.Fatalf("the database's clock is %s off, not %s", got, off)
			}
			settlesBacksOffAndRenews(t, db, off)
			// a lease that lapsed is swept, and who slept through it is refused
			zombieRounds(t, fresh)
		})
	}
}

// faketime finds libfaketime, which moves the clock of PostgreSQL; a Go program does
// not ask libc for the time, so that the workers keep the true one.
func faketime(t *testing.T) string {
	t.Helper()
	for _, pattern := range []string{"/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib*/faketime/libfaketime.so.1", "/usr/local/lib/faketime/libfaketime.so.1"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 { // the only error is a bad pattern
			return found[0]
		}
	}
	t.Skip("libfaketime is not installed (Debian, Ubuntu: apt-get install libfaketime): the database's clock cannot be moved")
	return ""
}

// settlesBacksOffAndRenews builds one matter: it settles first, its first build asks
// for patience, and the second lasts longer than the lease.
func settlesBacksOffAndRenews(t *testing.T, db *pgtest.DB, off time.Duration) {
	t.Helper()
	const wait = time.Second
	builder := serve(t, func(ctx context.Context, w http.ResponseWriter, c call) {
		if c.Attempt == 1 {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not yet", http.StatusTooManyRequests)
			return
		}
		rest(ctx, 5*time.Second)
		answer(w, c)
	})
	s := quick(db.DSN, builder.URL).with(settings{
		"SETTLE_QUIET": wait.String(), "RETRY_BACKOFF_MAX": wait.String(),
	})
	fleet := []*process{startWorker(t, s), startWorker(t, s)}
	tell(t, db.Pool, uploaded, newKey())
	awaitQuiet(t, db.Pool, 60*time.Second)
	if n := builder.count(); n != 2 {
		t.Errorf("%d builder calls for one failed build and one good", n)
	}
	if w := one[time.Duration](t, db.Pool, `SELECT r.started_at - o.recorded_at FROM ops.matter_frame_runs r JOIN ops.domain_event_outbox o USING (firm_id, matter_id)
		WHERE r.attempt = 1 AND o.event_name = $1`, uploaded); w < wait {
		t.Errorf("built after %s instead of a settle time of %s", w, wait)
	}
	if w := one[time.Duration](t, db.Pool, `SELECT b.started_at - a.finished_at FROM ops.matter_frame_runs a JOIN ops.matter_frame_runs b ON b.retry_of = a.run_id`); w < wait-100*time.Millisecond {
		t.Errorf("tried again after %s and not after %s", w, wait)
	}
	var renewed float64
	for _, w := range fleet {
		renewed += w.metric(`rail_lease_renewals_total{outcome="renewed"}`)
		if skew := w.metric("rail_clock_skew_seconds"); (time.Duration(skew*float64(time.Second)) + off).Abs() > 10*time.Second {
			t.Errorf("a skew of %v s is exported; the database is %s off", skew, off)
		}
	}
	if renewed < 3 {
		t.Errorf("%v renewals", renewed)
	}
	assertCurrent(t, db.Pool)
}
