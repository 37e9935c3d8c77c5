package kumo

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDemoOnKumo plays the demo with the rail's own programs and this emulator between
// outbox and workers. That the nudges went over it is seen in three places: on the
// screen, where the demo reads the workers' counters and a queue beside theirs; in
// what the emulator was asked; and in what its bus posted to its queues.
func TestDemoOnKumo(t *testing.T) {
	url := start(t)
	out := play(t, programs(t), "--aws-endpoint", url)
	flat := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		`EventBridge and SQS at ` + url, `"account": "000000000000"`, `"event-bus-name": "briefrail-demo-`,
		`✓ 4 facts, the landing's own among them: 4 published by the relay, 4 seen on the bus`,
		`✓ [4-9] nudges received by the workers: [1-4] of the facts decided by their nudge`,
		`✓ the nudge names a fact by its ids and holds nothing else`,
		`✓ 2 builds: the one that was running, and exactly one follow-up`,
		`✓ worker [A-Z] landed with the next token: 11 after 10`,
		`✓ 2 facts, 2 published by the relay; 2 nudges seen on the bus and lost behind it ✓ 0 nudges received by the workers`,
		`✓ 2 receipts: the sweep took each fact once it was 3 s old`,
		`✓ 12 facts, 12 receipts: nothing vanished`, `All 30 checks held`,
	} {
		if !regexp.MustCompile(want).MatchString(flat) {
			t.Errorf("nothing like %q in:\n%s", want, out)
		}
	}
	wantCalls(t, url)
}

// wantCalls looks at what the emulator was asked. Its bus posts each of the 12 events
// to the queue that shows them, and all but the 2 lost ones to the workers' queue; an
// event may have been sent twice.
func wantCalls(t *testing.T, url string) {
	t.Helper()
	calls := map[string]int{}
	get(t, url+callsPath, &calls)
	if n := calls["AmazonSQS.SendMessage"]; n < 12+10 {
		t.Errorf("the bus put %d messages into queues, want 22 or more in %v", n, calls)
	}
	if n := calls["AWSEvents.PutEvents"]; n < 4 {
		t.Errorf("%d calls of PutEvents in four scenes", n)
	}
	for made, removed := range map[string]string{
		"AmazonSQS.CreateQueue": "AmazonSQS.DeleteQueue", "AWSEvents.PutRule": "AWSEvents.DeleteRule", "AWSEvents.CreateEventBus": "AWSEvents.DeleteEventBus",
	} {
		if calls[made] == 0 || calls[made] != calls[removed] {
			t.Errorf("%s %d times, %s %d", made, calls[made], removed, calls[removed])
		}
	}
}

func get(t *testing.T, url string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// programs builds the rail as its own module does, with the flags of the Makefile so
// that its cache serves.
func programs(t *testing.T) (railctl string) {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", bin+"/",
		"./cmd/railctl", "./cmd/railworker", "./cmd/outbox-relay", "./cmd/brief-builder")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return filepath.Join(bin, "railctl")
}

// play runs the demo to its end and wants nothing left of it on this machine.
func play(t *testing.T, railctl string, args ...string) string {
	t.Helper()
	tmp, err := os.MkdirTemp("", "demo-kumo-") // t.TempDir cannot be passed by the server's account
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	if err := os.Chmod(tmp, 0o711); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, railctl, append([]string{"demo", "--plain"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the demo: %v\n%s", err, out)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return string(out)
}
