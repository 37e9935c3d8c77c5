package main

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"briefrail/internal/telemetry/telemetrytest"
)

// settings are RAIL_ variables without the prefix.
type settings map[string]string

// quick is a worker whose times fit a test.
func quick(db, builder string) settings {
	return settings{
		"DATABASE_URL": db, "BUILDER_HTTP_URL": builder, "ADMIN_LISTEN": "127.0.0.1:0", "LOG_FORMAT": "json",
		"LEASE_DURATION": "2s", "SWEEP_EVERY": "200ms", "SETTLE_QUIET": "100ms", "POLL_MAX_IDLE": "200ms",
		"RETRY_BACKOFF": "50ms", "RETRY_BACKOFF_MAX": "500ms", "BUILDER_TIMEOUT": "1m", "CANARY_EVERY": "off",
		"WORKER_STOP_GRACE": "10s", "DATABASE_MAX_CONNS": "5",
	}
}

func (s settings) with(more settings) settings {
	out := maps.Clone(s)
	maps.Copy(out, more)
	return out
}

// environ is the process's environment: ours without what would configure it.
func (s settings) environ() []string {
	env := []string{"RAIL_TEST_RUN_MAIN=1"}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "RAIL_") && !strings.HasPrefix(kv, "OTEL_") {
			env = append(env, kv)
		}
	}
	for k, v := range s {
		env = append(env, "RAIL_"+k+"="+v)
	}
	return env
}

// process is one railworker.
type process struct {
	cmd    *exec.Cmd
	log    *logBuffer
	exited chan struct{}
	admin  string // address, once it has started
}

// launch starts the program and does not wait for anything.
func launch(t testing.TB, s settings, args ...string) *process {
	t.Helper()
	return launchBinary(t, self(t), s, args...)
}

// self is the program of this test, which is a worker where it is told to be one.
func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func launchBinary(t testing.TB, binary string, s settings, args ...string) *process {
	t.Helper()
	return launchIn(t, binary, s.environ(), args...)
}

func launchIn(t testing.TB, binary string, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, args...), log: &logBuffer{}, exited: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, p.log, p.log
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	t.Cleanup(func() { p.end(t) })
	return p
}

// startWorker starts a worker and waits until it serves.
func startWorker(t testing.TB, s settings) *process {
	t.Helper()
	p := launch(t, s, "run")
	p.awaitStart(t)
	return p
}

func (p *process) awaitStart(t testing.TB) {
	t.Helper()
	eventually(t, 30*time.Second, "worker started", func() bool {
		p.admin = p.log.field("started", "listen")
		return p.admin != "" || p.gone()
	})
	if p.gone() {
		t.Fatalf("worker ended at its start with %d:\n%s", p.code(), p.log)
	}
}

// end kills what still runs, and speaks of races and panics that nobody looked for.
func (p *process) end(t testing.TB) {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGKILL)
	<-p.exited
	for _, word := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if strings.Contains(p.log.String(), word) {
			t.Errorf("%s in worker %d:\n%s", word, p.cmd.Process.Pid, p.log)
		}
	}
	if t.Failed() {
		t.Logf("log of worker %d:\n%s", p.cmd.Process.Pid, p.log.tail(3000))
	}
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// await waits for the end and returns the exit code.
func (p *process) await(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(within):
		t.Fatalf("process runs on after %s:\n%s", within, p.log.tail(4000))
	}
	return p.code()
}

// code is the exit code, or -1 after a signal; only once the process is gone.
func (p *process) code() int { return p.cmd.ProcessState.ExitCode() }

// probe asks an admin path; status 0 means no answer.
func (p *process) probe(path string) (status int, body string) {
	client := http.Client{Timeout: 10 * time.Second}
	res, err := client.Get("http://" + p.admin + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func (p *process) ready() bool { code, _ := p.probe("/readyz"); return code == http.StatusOK }

// metric reads one sample; the series is written as in the text format. It is -1
// where there is none.
func (p *process) metric(series string) float64 {
	_, body := p.probe("/metrics")
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err == nil {
				return v
			}
		}
	}
	return -1
}

// logBuffer keeps what a process writes.
type logBuffer struct{ telemetrytest.Log }

func (l *logBuffer) tail(n int) string {
	s := l.String()
	return s[max(0, len(s)-n):]
}

// field finds the first line with a message and returns one of its fields.
func (l *logBuffer) field(msg, key string) string {
	lines := bufio.NewScanner(strings.NewReader(l.String()))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m map[string]any
		if json.Unmarshal(lines.Bytes(), &m) == nil && m["msg"] == msg {
			s, _ := m[key].(string)
			return s
		}
	}
	return ""
}

// output runs the program to its end.
func output(t testing.TB, s settings, args ...string) (code int, text string) {
	t.Helper()
	p := launch(t, s, args...)
	code = p.await(t, 30*time.Second)
	return code, p.log.String()
}
