package main

import (
	"context"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// A worker is stopped in mid-build past its lease; another builds with the next
// token and lands; the first is continued, its builder's answer lies ready, and its
// write is refused. The renewal wakes up at the same time; when that is the faster
// one the zombie learns it before it writes, and there is another round.
func TestZombieIsRefused(t *testing.T) {
	t.Parallel()
	zombieRounds(t, func() *pgtest.DB { return pgtest.New(t) })
}

func zombieRounds(t *testing.T, fresh func() *pgtest.DB) {
	t.Helper()
	for range 5 {
		if zombieWrites(t, fresh()) || t.Failed() {
			return
		}
	}
	t.Error("no zombie came to write")
}

// zombieWrites is one round; it reports whether the zombie tried to land.
func zombieWrites(t *testing.T, db *pgtest.DB) bool {
	first, answered := newHeld(), make(chan struct{})
	var zombie atomic.Pointer[rail.UUID]
	builder := serve(t, func(ctx context.Context, w http.ResponseWriter, c call) {
		if !zombie.CompareAndSwap(nil, &c.Run) {
			answer(w, c)
			return
		}
		first.script(ctx, w, c)
		close(answered)
	})
	s := quick(db.DSN, builder.URL)
	a := startWorker(t, s.with(settings{"WORKER_NAME": "a"}))
	k := newKey()
	tell(t, db.Pool, uploaded, k)
	eventually(t, 20*time.Second, "a builds", func() bool { return builder.count() == 1 })
	a.signal(syscall.SIGSTOP)
	startWorker(t, s.with(settings{"WORKER_NAME": "b"}))
	awaitStatus(t, db.Pool, k, "idle")
	first.release()
	<-answered
	a.signal(syscall.SIGCONT)
	run := *zombie.Load()
	eventually(t, 10*time.Second, "the run ended in a", func() bool { return a.metric(`rail_runs_total{outcome="expired"}`) == 1 })
	rejected := func(write string) float64 { return a.metric(`rail_fence_rejections_total{write="` + write + `"}`) }
	// a landing that the renewal cut short tells of its failure instead, which is refused too
	land, renew, fail := rejected("land"), rejected("renew"), rejected("fail")
	if land+renew+fail != 1 {
		t.Errorf("rejections: land %v, renew %v, fail %v", land, renew, fail)
	}
	if noted := one[bool](t, db.Pool, `SELECT late_write_at IS NOT NULL FROM ops.matter_frame_runs WHERE run_id = $1`, run); noted != (land+fail == 1) {
		t.Errorf("late write noted: %v; rejections: land %v, renew %v, fail %v", noted, land, renew, fail)
	}
	if o := one[string](t, db.Pool, `SELECT outcome FROM ops.matter_frame_runs WHERE run_id = $1`, run); o != "expired" {
		t.Errorf("the zombie's run is %s", o)
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frames f JOIN ops.matter_frame_runs r USING (run_id) WHERE r.worker = 'b' AND r.retry_of = $1`, run); n != 1 {
		t.Errorf("%d frames of b", n)
	}
	if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frames`); n != 1 {
		t.Errorf("%d frames", n)
	}
	assertCurrent(t, db.Pool)
	if !a.ready() {
		t.Error("the zombie is not ready to work on")
	}
	return land == 1
}
