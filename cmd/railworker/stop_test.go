package main

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"time"

	"briefrail/internal/pg/pgtest"
)

// SIGTERM in mid-build: what ends within the grace lands, the rest is handed back
// without charge and another worker starts it at once.
func TestStopHandsClaimsBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	quickly, never := newHeld(), newHeld()
	keys := newKeys(1, 4)
	builder := serve(t, func(ctx context.Context, w http.ResponseWriter, c call) {
		if c.Key == keys[0] {
			quickly.script(ctx, w, c)
		} else {
			never.script(ctx, w, c)
		}
	})
	s := quick(db.DSN, builder.URL).with(settings{"WORKER_STOP_GRACE": "1s", "LEASE_DURATION": "1m"})
	a := startWorker(t, s)
	tell(t, db.Pool, uploaded, keys...)
	eventually(t, 20*time.Second, "all four are being built", func() bool { return builder.count() == 4 })
	a.signal(syscall.SIGTERM)
	begun := time.Now()
	eventually(t, 5*time.Second, "draining", func() bool { return !a.ready() })
	quickly.release()
	if code := a.await(t, 10*time.Second); code != 0 {
		t.Errorf("exit %d after SIGTERM:\n%s", code, a.log)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the stop took %s with a grace of 1s", took)
	}
	if status := statusOf(t, db.Pool, keys[0]); status != "idle" {
		t.Errorf("the build that ended within the grace left its matter %s", status)
	}
	back := one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frame_jobs j JOIN ops.matter_frame_runs r USING (firm_id, matter_id)
		WHERE j.run_status = 'queued' AND j.attempts = 0 AND j.not_before <= clock_timestamp() AND r.outcome = 'released' AND r.error_kind = 'interrupted'`)
	if back != 3 {
		t.Errorf("%d of 3 claims handed back uncharged", back)
	}
	never.release()
	startWorker(t, s)
	started := time.Now()
	awaitQuiet(t, db.Pool, 10*time.Second)
	t.Logf("stopped after %s; the rest landed %s after the next worker's start", time.Since(begun).Round(time.Millisecond), time.Since(started).Round(time.Millisecond))
	assertCurrent(t, db.Pool)
}

// The second signal does not wait for anything.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	builder := serve(t, newHeld().script)
	w := startWorker(t, quick(db.DSN, builder.URL).with(settings{"WORKER_STOP_GRACE": "60s"}))
	tell(t, db.Pool, uploaded, newKey())
	eventually(t, 20*time.Second, "it is being built", func() bool { return builder.count() == 1 })
	w.signal(syscall.SIGTERM)
	eventually(t, 5*time.Second, "draining", func() bool { return !w.ready() })
	w.signal(syscall.SIGTERM)
	if code := w.await(t, 2*time.Second); code == 0 {
		t.Error("exit 0 although a build was cut off")
	}
}

// A stop that is asked for while the database is still away is a stop, not an
// error.
func TestStopWhileWaitingForTheDatabase(t *testing.T) {
	t.Parallel()
	w := launch(t, quick("postgres://rail@127.0.0.1:1/none?sslmode=disable", "http://127.0.0.1:1/"), "run")
	eventually(t, 20*time.Second, "waiting for the database", func() bool { return w.log.field("waiting for the database", "err") != "" })
	w.admin = w.log.field("listening", "listen")
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/startupz": http.StatusServiceUnavailable, "/metrics": http.StatusOK} {
		if code, body := w.probe(path); code != want {
			t.Errorf("%s of a worker that waits: %d %s", path, code, body)
		}
	}
	w.signal(syscall.SIGTERM)
	if code := w.await(t, 10*time.Second); code != 0 {
		t.Errorf("exit %d:\n%s", code, w.log)
	}
}
