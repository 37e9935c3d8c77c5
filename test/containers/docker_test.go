package containers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// need skips where there is no engine.
func need(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skip("no Docker here: install it to run these tests")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "docker", "info").CombinedOutput(); err != nil {
		t.Skipf("Docker's engine does not answer: %v: %.300s", err, out)
	}
}

// patience is how long a condition may take to come on a machine that is busy. It decides
// about no outcome.
const patience = 3 * time.Minute

// budget is after how long no scene begins that can wait, in a gate. Those that must be
// shown are not bound by it.
const budget = 6 * time.Minute

// begun is when this process started: images are made on the way.
var begun = time.Now()

// inTime skips a scene that would make a gate too long on a machine that is slow today.
func inTime(t *testing.T) {
	t.Helper()
	if took := time.Since(begun); took > budget && os.Getenv("RAIL_TEST_LOAD") != "full" {
		t.Skipf("left out: the machine is slow, %.0f s are gone; RAIL_TEST_LOAD=full runs it", took.Seconds())
	}
}

// command runs one program and returns what it wrote to stdout.
func command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, tail(errOut.String()+out.String(), 3000))
	}
	return strings.TrimSpace(out.String()), err
}

func tail(s string, n int) string {
	s = strings.TrimSpace(s)
	return s[max(0, len(s)-n):]
}

// docker runs the docker command, which must succeed.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), nil, "docker", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// composing is the command of Compose, version 2 where it is there.
func composing(t *testing.T) []string {
	t.Helper()
	if _, err := command(t.Context(), nil, "docker", "compose", "version"); err == nil {
		return []string{"docker", "compose"}
	}
	if _, err := exec.LookPath("docker-compose"); err != nil {
		t.Skip("no Compose here: install docker-compose 1.29, or Docker's plugin")
	}
	return []string{"docker-compose"}
}

// eventually polls until done says yes.
func eventually(t *testing.T, within time.Duration, what string, done func() bool) {
	t.Helper()
	if !reached(t, within, done) {
		t.Fatalf("not within %s: %s", within, what)
	}
}

func reached(t *testing.T, within time.Duration, done func() bool) bool {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for !done() {
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-deadline.C:
			return done()
		case <-tick.C:
		}
	}
	return true
}
