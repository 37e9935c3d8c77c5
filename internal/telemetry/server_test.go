package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func listen(t *testing.T, opts ServerOptions) *Server {
	t.Helper()
	if opts.Registry == nil {
		opts.Registry = NewRegistry(Version("v0", "test"))
	}
	s, err := Listen(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// get asks the routes without a socket.
func get(s *Server, path string, change ...func(*http.Request)) (int, string) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func wantAnswer(t *testing.T, s *Server, path string, code int, contains string) {
	t.Helper()
	if c, body := get(s, path); c != code || !strings.Contains(body, contains) {
		t.Errorf("%s: %d %q, want %d with %q", path, c, body, code, contains)
	}
}

func TestProbes(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	s := listen(t, ServerOptions{CacheFor: time.Nanosecond, Ready: []Check{
		{"database", func(context.Context) error {
			if down.Load() {
				return errors.New("connection refused\xff")
			}
			return nil
		}},
		{"schema", func(context.Context) error { return nil }},
	}})
	wantAnswer(t, s, "/livez", 200, "ok")
	wantAnswer(t, s, "/startupz", 503, "not ok: started")
	wantAnswer(t, s, "/readyz", 503, "not ok: started")
	s.Started()
	wantAnswer(t, s, "/startupz", 200, "ok")
	wantAnswer(t, s, "/readyz", 200, "ok")
	wantAnswer(t, s, "/readyz?verbose", 200, "[+] database\n[+] schema\n[+] started\nok\n")
	down.Store(true)
	wantAnswer(t, s, "/readyz", 503, "not ok: database\n")
	wantAnswer(t, s, "/readyz?verbose", 503, "[-] database: connection refused\uFFFD\n[+] schema")
	wantAnswer(t, s, "/livez", 200, "ok")
	wantAnswer(t, s, "/startupz", 200, "ok")
	down.Store(false)
	s.Drain()
	wantAnswer(t, s, "/readyz", 503, "not ok: draining")
	wantAnswer(t, s, "/livez", 200, "ok")
	wantAnswer(t, s, "/nothing", 404, "")
}

func TestWedgedLoopIsNotAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := NewRegistry(Version("v0", "test"))
		s := listen(t, ServerOptions{Registry: reg, Loops: newLoops(t, reg, Loop{"claim", time.Minute, time.Second})})
		time.Sleep(2 * time.Minute)
		wantAnswer(t, s, "/livez?verbose", 503, "[-] loops: claim has not turned for 2m0s")
		s.Drain()
		wantAnswer(t, s, "/livez", 200, "ok")
	})
}

func TestReadinessIsCached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		s := listen(t, ServerOptions{CacheFor: 2 * time.Second, Ready: []Check{{"database", func(context.Context) error {
			calls.Add(1)
			time.Sleep(time.Second)
			return nil
		}}}})
		s.Started()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { wantAnswer(t, s, "/readyz", 200, "ok") })
		}
		wg.Wait()
		wantAnswer(t, s, "/readyz", 200, "ok")
		if n := calls.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		time.Sleep(3 * time.Second)
		wantAnswer(t, s, "/readyz", 200, "ok")
		if n := calls.Load(); n != 2 {
			t.Errorf("asked %d times after the answer aged", n)
		}
	})
}

func TestHungCheckIsNotPiledUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		release := make(chan struct{})
		s := listen(t, ServerOptions{Ready: []Check{{"database", func(context.Context) error {
			calls.Add(1)
			<-release // a check that ignores its context
			return nil
		}}}})
		s.Started()
		for range 3 {
			wantAnswer(t, s, "/readyz?verbose", 503, "[-] database: no answer in time")
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d probes at once", n)
		}
		close(release)
		synctest.Wait()
		wantAnswer(t, s, "/readyz", 200, "ok")
	})
}

func TestMetricsSurviveAFailingCollector(t *testing.T) {
	t.Parallel()
	reg := NewRegistry(Version("v0", "test"))
	s := listen(t, ServerOptions{Registry: reg})
	wantAnswer(t, s, "/metrics", 200, "rail_collector_errors_total 0")
	reg.MustRegister(failing{errors.New("statement timeout")})
	get(s, "/metrics")
	code, body := get(s, "/metrics")
	if code != 200 || !strings.Contains(body, "rail_collector_errors_total 1") || strings.Contains(body, "rail_jobs") {
		t.Errorf("%d with rail_jobs %v", code, strings.Contains(body, "rail_jobs"))
	}
	for _, name := range []string{"rail_build_info{", "go_goroutines", "process_start_time_seconds"} {
		if !strings.Contains(body, name) {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestBasicAuth(t *testing.T) {
	t.Parallel()
	password := "one"
	var pwErr error
	s := listen(t, ServerOptions{Username: "scraper", Password: func() (string, error) { return password, pwErr }})
	auth := func(user, pw string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, pw) }
	}
	for _, c := range []struct {
		user, pw string
		code     int
	}{{"scraper", "one", 200}, {"scraper", "two", 401}, {"other", "one", 401}, {"", "", 401}} {
		if code, _ := get(s, "/metrics", auth(c.user, c.pw)); code != c.code {
			t.Errorf("%s:%s: %d, want %d", c.user, c.pw, code, c.code)
		}
	}
	wantAnswer(t, s, "/metrics", 401, "")
	wantAnswer(t, s, "/livez", 200, "ok")
	password = "two"
	if code, _ := get(s, "/metrics", auth("scraper", "two")); code != 200 {
		t.Errorf("after rotation: %d", code)
	}
	for _, c := range []struct {
		pw  string
		err error
	}{{"", nil}, {"x", errors.New("gone")}} {
		password, pwErr = c.pw, c.err
		if code, _ := get(s, "/metrics", auth("scraper", c.pw)); code != 503 {
			t.Errorf("unreadable password: %d", code)
		}
	}
}

func TestRunAndHealthcheck(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := listen(t, ServerOptions{Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	url, err := ProbeURL(s.Addr(), "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	if err := Healthcheck(t.Context(), url); err == nil || !strings.Contains(err.Error(), "503 Service Unavailable: not ok: started") {
		t.Errorf("before start: %v", err)
	}
	s.Started()
	if err := Healthcheck(t.Context(), url); err != nil {
		t.Errorf("after start: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := Healthcheck(t.Context(), url); err == nil {
		t.Error("answers after the end")
	}
	if log.Len() > 0 {
		t.Errorf("probes are logged: %s", &log)
	}
}

func TestListenErrors(t *testing.T) {
	t.Parallel()
	if _, err := Listen(t.Context(), ServerOptions{}); err == nil {
		t.Error("no registry, no error")
	}
	first := listen(t, ServerOptions{Listen: "127.0.0.1:0"})
	if _, err := Listen(t.Context(), ServerOptions{Listen: first.Addr(), Registry: NewRegistry(BuildInfo{})}); err == nil {
		t.Error("one address twice, no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Run(ctx); err != nil {
		t.Error(err)
	}
	if err := listen(t, ServerOptions{}).Run(ctx); err != nil {
		t.Errorf("without a listener: %v", err)
	}
}

func TestProbeURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		":9464": "http://127.0.0.1:9464/livez", "0.0.0.0:1": "http://127.0.0.1:1/livez",
		"[::]:1": "http://[::1]:1/livez", "10.0.0.1:2": "http://10.0.0.1:2/livez",
	} {
		if got, err := ProbeURL(in, "/livez"); err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	if _, err := ProbeURL("off", "/livez"); err == nil {
		t.Error("an address without a port, no error")
	}
}
