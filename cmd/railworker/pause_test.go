package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"briefrail/internal/pg/pgtest"
)

// faults are answers that blame the builder and not the matter.
func faults() map[string]func(http.ResponseWriter) {
	page := func(status int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<!DOCTYPE html><html><body>Please sign in</body></html>")
		}
	}
	return map[string]func(http.ResponseWriter){
		"401":             func(w http.ResponseWriter) { http.Error(w, "no", http.StatusUnauthorized) },
		"302":             func(w http.ResponseWriter) { w.Header().Set("Location", "/login"); w.WriteHeader(http.StatusFound) },
		"200 with a page": page(http.StatusOK),
	}
}

// A builder at fault is paused: claims go back uncharged, one probe at a time finds
// out when it is well again, the canary lands meanwhile, and nobody restarts
// anything.
func TestBuilderAtFaultIsPaused(t *testing.T) {
	t.Parallel()
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			var probing, together atomic.Int32
			builder := serve(t, func(_ context.Context, w http.ResponseWriter, _ call) {
				fault(w)
			})
			w := startWorker(t, quick(db.DSN, builder.URL).with(settings{"CANARY_EVERY": "400ms"}))
			tell(t, db.Pool, uploaded, newKeys(3, 20)...)
			eventually(t, 20*time.Second, "the builder is paused", func() bool { return w.metric("rail_builder_paused") == 1 })
			eventually(t, 5*time.Second, "not ready, with the reason", func() bool {
				code, body := w.probe("/readyz?verbose")
				return code == http.StatusServiceUnavailable && strings.Contains(body, "[-] builder: paused until")
			})
			// claims that were asked for before the pause are built; whoever calls next was
			// claimed after them, or is one of them and has its row
			asked := builder.count()
			eventually(t, 30*time.Second, "it is called in the pause", func() bool { return builder.count() > asked })
			eventually(t, 20*time.Second, "what was under way is back", func() bool {
				return peek[int](t.Context(), db.Pool, `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'running'`) == 0
			})
			builder.follow(func(ctx context.Context, w http.ResponseWriter, _ call) {
				if probing.Add(1) > 1 {
					together.Add(1)
				}
				rest(ctx, 100*time.Millisecond)
				probing.Add(-1)
				fault(w)
			})
			canaries := canaryFrames(t, db)
			before := builder.count()
			eventually(t, time.Minute, "it is probed", func() bool { return builder.count() >= before+sized(1, 3) })
			pass(t, time.Second)
			if together.Load() > 0 {
				t.Error("probes ran beside each other")
			}
			if n := canaryFrames(t, db); n <= canaries {
				t.Errorf("the canary did not land during the pause (%d, then %d)", canaries, n)
			}
			if n := one[int](t, db.Pool, `SELECT coalesce(sum(attempts), 0) FROM ops.matter_frame_jobs WHERE run_status = 'queued'`); n != 0 {
				t.Errorf("%d attempts charged", n)
			}
			if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frame_runs WHERE outcome NOT IN ('released', 'landed', 'running')`); n != 0 {
				t.Errorf("%d runs did not end as released", n)
			}
			builder.follow(nil)
			// the pause has doubled with each probe
			eventually(t, time.Minute, "trusted again", func() bool { return w.metric("rail_builder_paused") == 0 })
			eventually(t, 30*time.Second, "every matter is current", func() bool {
				return peek[int](t.Context(), db.Pool, `SELECT count(DISTINCT matter_id) FROM ops.matter_frames WHERE frame ? 'run'`) == 20
			})
			eventually(t, 5*time.Second, "ready", w.ready)
		})
	}
}

func canaryFrames(t *testing.T, db *pgtest.DB) int {
	t.Helper()
	return one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frame_runs WHERE builder = 'canary' AND outcome = 'landed'`)
}

// reserved is a port that nobody else can take and that refuses whoever calls: it is
// bound, but nobody listens yet.
type reserved struct {
	socket *os.File
	addr   string
}

func reserve(t *testing.T) reserved {
	t.Helper()
	syscall.ForkLock.RLock() // a worker started meanwhile must not inherit it
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	r := reserved{socket: os.NewFile(uintptr(fd), "reserved port")}
	t.Cleanup(func() { _ = r.socket.Close() })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	r.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(at.(*syscall.SockaddrInet4).Port))
	return r
}

// listen lets callers in from now on.
func (r reserved) listen(t *testing.T) net.Listener {
	t.Helper()
	if err := syscall.Listen(int(r.socket.Fd()), syscall.SOMAXCONN); err != nil {
		t.Fatal(err)
	}
	l, err := net.FileListener(r.socket)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The same transient error on five matters in a row is the builder's, not theirs:
// at most four are charged for it. Here nobody listens.
func TestBuilderThatIsAwayIsPaused(t *testing.T) {
	t.Parallel()
	port := reserve(t)
	db := pgtest.New(t)
	w := startWorker(t, quick(db.DSN, "http://"+port.addr+"/build").with(settings{"WORKER_SLOTS": "1"}))
	tell(t, db.Pool, uploaded, newKeys(1, 10)...)
	eventually(t, 20*time.Second, "the builder is paused", func() bool { return w.metric("rail_builder_paused") == 1 })
	if n := one[int](t, db.Pool, `SELECT sum(attempts) FROM ops.matter_frame_jobs`); n > 4 {
		t.Errorf("%d attempts charged", n)
	}
	l := port.listen(t)
	builder := &service{}
	server := &http.Server{Handler: http.HandlerFunc(builder.handle), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	awaitQuiet(t, db.Pool, 30*time.Second)
	assertCurrent(t, db.Pool)
	if n := w.metric("rail_builder_paused"); n != 0 {
		t.Errorf("rail_builder_paused %v", n)
	}
}
