package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/telemetry/telemetrytest"
)

// TestMain lets the test binary stand for the program, so that the relays that are
// killed and stopped here are real processes.
func TestMain(m *testing.M) {
	if os.Getenv("RAIL_TEST_RUN_MAIN") != "1" {
		os.Exit(m.Run())
	}
	go func() { // a relay does not outlive a test binary that was killed
		for parent := os.Getppid(); os.Getppid() == parent; {
			<-time.After(time.Second)
		}
		os.Exit(3)
	}()
	main()
}

// cloud is a fake bus with a rule to a queue, and a database.
type cloud struct {
	*awsfake.Server
	db     *pgtest.DB
	url    string
	places awsfake.Places
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{Server: awsfake.New(awsfake.Options{}), db: pgtest.New(t)}
	url, stop, err := c.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	c.url, c.places = url, c.Provision(url, awsfake.Layout{})
	return c
}

// env is the environment of a relay whose times fit a test.
func (c *cloud) env(more ...string) []string {
	env := []string{
		"RAIL_TEST_RUN_MAIN=1", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=fake", "AWS_SECRET_ACCESS_KEY=fake", "AWS_ENDPOINT_URL=" + c.url,
		"RAIL_DATABASE_URL=" + c.db.DSN, "RAIL_DATABASE_MAX_CONNS=4", "RAIL_ADMIN_LISTEN=127.0.0.1:0", "RAIL_LOG_FORMAT=json",
		"RAIL_RELAY_SINKS=[eventbridge]", "RAIL_RELAY_EVENT_BUS=" + c.places.Bus, "RAIL_RELAY_QUEUE_URL=" + c.places.Queue,
		"RAIL_RELAY_LEASE=2s", "RAIL_RELAY_MAX_IDLE=200ms", "RAIL_RELAY_TIMEOUT=3s", "RAIL_RELAY_BACKOFF=50ms", "RAIL_RELAY_BACKOFF_MAX=500ms",
	}
	return append(env, more...)
}

// process is one relay.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	log    telemetrytest.Log
}

func (p *process) said() string { return p.log.String() }

func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self, args...), exited: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGKILL)
		<-p.exited
		if text := p.said(); t.Failed() || strings.Contains(text, "panic: ") || strings.Contains(text, "DATA RACE") {
			t.Errorf("log of a relay:\n%s", text)
		}
	})
	return p
}

// started launches a relay and waits until it works.
func started(t *testing.T, env []string) *process {
	t.Helper()
	p := launch(t, env, "run")
	eventually(t, "started", func() bool { return strings.Contains(p.said(), `"msg":"started"`) })
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// code waits for the end and returns the exit code, -1 after a signal.
func (p *process) code(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(30 * time.Second):
		t.Fatalf("still running:\n%s", p.said())
	}
	return p.cmd.ProcessState.ExitCode()
}

// admin is the address that the relay says it listens on.
func (p *process) admin() string {
	_, rest, _ := strings.Cut(p.said(), `"listen":"`)
	address, _, _ := strings.Cut(rest, `"`)
	return address
}

func (p *process) ask(path string) (status int, body string) {
	client := http.Client{Timeout: 5 * time.Second}
	res, err := client.Get("http://" + p.admin() + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("still not: %s", what)
		case <-tick.C:
		}
	}
}
