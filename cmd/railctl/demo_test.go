package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"briefrail/internal/nudge/awsfake"
)

// TestDemo plays the demo with real processes, as make demo does.
func TestDemo(t *testing.T) {
	t.Parallel()
	bin := buildPrograms(t)
	t.Run("bus", func(t *testing.T) { t.Parallel(); testDemoBus(t, bin) })
	t.Run("ledger", func(t *testing.T) { t.Parallel(); testDemoLedger(t, bin) })
	t.Run("real case", func(t *testing.T) { t.Parallel(); testDemoRealCase(t, bin) })
	t.Run("misused", func(t *testing.T) { t.Parallel(); testDemoMisused(t, bin) })
	t.Run("programs missing", func(t *testing.T) { t.Parallel(); testDemoAlone(t, bin) })
	t.Run("interrupted", func(t *testing.T) { t.Parallel(); testDemoInterrupted(t, bin) })
	t.Run("killed", func(t *testing.T) { t.Parallel(); testDemoKilled(t, bin) })
}

// buildPrograms builds what the demo needs, with the flags of the Makefile so that
// its cache serves.
func buildPrograms(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", bin+"/",
		"briefrail/cmd/railctl", "briefrail/cmd/railworker", "briefrail/cmd/outbox-relay", "briefrail/cmd/brief-builder")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// demoCmd is a demo with a folder of its own for what it writes. A setting of the
// person's shell must not reach what it starts.
func demoCmd(t *testing.T, ctx context.Context, railctl string, args ...string) (cmd *exec.Cmd, tmp string) {
	t.Helper()
	tmp, err := os.MkdirTemp("", "demo-test-") // t.TempDir cannot be passed by the server's account
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	if err := os.Chmod(tmp, 0o711); err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(ctx, railctl, append([]string{"demo", "--plain"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "RAIL_LEASE=nonsense", "RAIL_DATABASE_URL=postgres://nowhere.invalid/", "BRIEF_DELAY=nonsense",
		"AWS_PROFILE=nobody-has-this", "AWS_ENDPOINT_URL_SQS=http://nowhere.invalid/", "AWS_ENDPOINT_URL_EVENTBRIDGE=http://nowhere.invalid/")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	return cmd, tmp
}

func playDemo(t *testing.T, railctl string, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd, tmp := demoCmd(t, ctx, railctl, args...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	wantNothingLeft(t, tmp)
	return string(text), cmd.ProcessState.ExitCode()
}

func wantNothingLeft(t *testing.T, tmp string) {
	t.Helper()
	left, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func wantLines(t *testing.T, out string, patterns ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(out), " ")
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(flat) {
			t.Errorf("nothing like %q in:\n%s", p, out)
		}
	}
	if strings.ContainsAny(out, "✗\x1b\r") {
		t.Errorf("a failed check or terminal codes in:\n%s", out)
	}
}

// storyOfBoth is what holds whatever tells the workers of facts.
func storyOfBoth() []string {
	return []string{
		`✓ 3 facts for 3 documents`, `✓ 3 receipts: `, `✓ 1 build, which served 3 demands`, `✓ 1 frame: `,
		`✓ (\d+) of \d+ quotes stand word for word`, `Halden Dairy Cooperative, claimant \S+, page 1 “`,
		`✓ the second question became a mark`, `✓ 2 builds: the one that was running, and exactly one follow-up`, `never two at a time`,
		`freezes in mid-build`, `[A-Z] 10 1 expired \S+ refused \d`, `✓ worker [A-Z] landed with the next token: 11 after 10`,
		`rail_fence_rejections_total went from 0 to 1`, `✓ (\d+) of \d+ invariants`, `All \d+ checks held`,
	}
}

// testDemoLedger: PostgreSQL alone.
func testDemoLedger(t *testing.T, bin string) {
	out, code := playDemo(t, filepath.Join(bin, "railctl"), "--source", "ledger")
	if code != exitOK {
		t.Errorf("exit %d", code)
	}
	wantLines(t, out, append(storyOfBoth(), `3 of 3 The zombie`, `✓ 5 builds: 4 landed, 1 expired; 4 frames`)...)
	if strings.Contains(out, "relay") || strings.Contains(out, "nudge") {
		t.Errorf("a bus where there is none:\n%s", out)
	}
	wantNarrow(t, out)
}

// testDemoBus: the whole rail, and the same with every nudge lost.
func testDemoBus(t *testing.T, bin string) {
	out, code := playDemo(t, filepath.Join(bin, "railctl"))
	if code != exitOK {
		t.Errorf("exit %d", code)
	}
	wantLines(t, out, append(storyOfBoth(),
		`✓ 4 facts, the landing's own among them: 4 published by the relay, 4 seen on the bus`, `✓ \d+ nudges received by the workers: [1-4] of the facts decided by their nudge`,
		`"detail": \{ "v": 1, "event_id": "[0-9a-f-]{36}"`, `"source": "brief.ops"`, `✓ the nudge names a fact by its ids and holds nothing else`,
		`4 of 4 Every nudge is lost`, `✓ 2 facts, 2 published by the relay; 2 nudges seen on the bus and lost behind it ✓ 0 nudges received by the workers`,
		`✓ 2 receipts: the sweep took each fact once it was 3 s old`, `✓ 1 build, 1 frame ✓ the Brief is current`, `✓ 6 builds: 5 landed, 1 expired; 5 frames`)...)
	wantNarrow(t, out)
}

func wantNarrow(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
}

// testDemoRealCase uses a case of the Supreme Court. Its three PDFs are not part of
// the project: RAIL_TEST_DATA names the folder that holds tarrant-v-herrmann.
func testDemoRealCase(t *testing.T, bin string) {
	data := os.Getenv("RAIL_TEST_DATA")
	if data == "" {
		t.Skip("RAIL_TEST_DATA is not set: it names the folder with tarrant-v-herrmann, three public PDFs that are not part of this repository")
	}
	out, code := playDemo(t, filepath.Join(bin, "railctl"), "--docs", filepath.Join(data, "tarrant-v-herrmann"))
	if code != exitOK {
		t.Errorf("exit %d", code)
	}
	wantLines(t, out,
		`✓ 3 facts for 3 documents`, `Tarrant Regional Water District, petitioner`, `Herrmann et al\., respondent`,
		`[1-9]\d+ dated statements`, `([2-9]\d|\d{3,}) assertions`, `expired \S+ refused \d`, `All \d+ checks held`,
	)
	quotes := regexp.MustCompile(`✓ (\d+) of (\d+) quotes`).FindStringSubmatch(out)
	if quotes == nil || quotes[1] != quotes[2] {
		t.Errorf("quotes: %q", quotes)
	}
}

func testDemoMisused(t *testing.T, bin string) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--source", "kafka"}, "bus or ledger"},
		{[]string{"--aws-endpoint", "127.0.0.1:4566"}, "a URL like http://127.0.0.1:4566"},
		{[]string{"--aws-endpoint", "http://127.0.0.1:4566/queue"}, "a URL like http://127.0.0.1:4566"},
		{[]string{"--aws-endpoint", "http://127.0.0.1:4566", "--source", "ledger"}, "needs --source bus"},
	} {
		out, code := playDemo(t, filepath.Join(bin, "railctl"), c.args...)
		if code != exitUsage || !strings.Contains(out, c.want) {
			t.Errorf("%q: exit %d: %s", c.args, code, out)
		}
	}
}

func testDemoAlone(t *testing.T, bin string) {
	self, err := os.ReadFile(filepath.Join(bin, "railctl"))
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(t.TempDir(), "railctl")
	if err := os.WriteFile(alone, self, 0o700); err != nil {
		t.Fatal(err)
	}
	out, code := playDemo(t, alone)
	if code != exitUsage || !strings.Contains(out, "make build") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// beginDemo starts a demo and returns once its first document has landed, with the
// processes that it told of.
func beginDemo(t *testing.T, bin string, args ...string) (cmd *exec.Cmd, tmp string, rest io.Reader, pids []int) {
	t.Helper()
	cmd, tmp = demoCmd(t, t.Context(), filepath.Join(bin, "railctl"), args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	lines := bufio.NewReader(out)
	for !strings.Contains(told.String(), " lands,") {
		line, err := lines.ReadString('\n')
		told.WriteString(line)
		if err != nil {
			t.Fatalf("%v after:\n%s", err, told.String())
		}
	}
	for _, m := range regexp.MustCompile(`\(process\s+(\d+)\)`).FindAllStringSubmatch(told.String(), -1) {
		pid, _ := strconv.Atoi(m[1])
		pids = append(pids, pid)
	}
	if len(pids) != 4 {
		t.Errorf("processes %v told in:\n%s", pids, told.String())
	}
	return cmd, tmp, lines, pids
}

// wantGone waits until none of the processes is there any more.
func wantGone(t *testing.T, pids []int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(30 * time.Second)
	for _, pid := range pids {
		for syscall.Kill(pid, 0) == nil {
			if time.Now().After(end) {
				t.Fatalf("process %d is still there", pid)
			}
			<-tick.C
		}
	}
}

// testDemoInterrupted is at somebody's endpoint, where nothing of it may stay.
func testDemoInterrupted(t *testing.T, bin string) {
	fake := awsfake.New(awsfake.Options{})
	url, end, err := fake.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	cmd, tmp, rest, pids := beginDemo(t, bin, "--aws-endpoint", url)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(rest)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitError || !bytes.Contains(text, []byte("interrupted")) {
		t.Errorf("exit %d: %s", code, text)
	}
	wantGone(t, pids)
	wantNothingLeft(t, tmp)
	calls := fake.Stats().Calls
	for made, removed := range map[string]string{"CreateQueue": "DeleteQueue", "PutRule": "DeleteRule", "CreateEventBus": "DeleteEventBus"} {
		if n := calls[made]["ok"]; n == 0 || calls[removed]["ok"] != n {
			t.Errorf("%s %d times, %s %v", made, n, removed, calls[removed])
		}
	}
}

func testDemoKilled(t *testing.T, bin string) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends the children of a process that was killed")
	}
	cmd, _, _, pids := beginDemo(t, bin)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	wantGone(t, pids)
}
