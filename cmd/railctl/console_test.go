package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConsoleRefusesWhatWouldLeaveADoorOpen(t *testing.T) {
	r := newRig(t)
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for want, line := range map[string][]string{
		"give HOST:PORT":            {"--listen", "8080"},
		"is not loopback":           {"--listen", "0.0.0.0:0"},
		"others can reach needs":    {"--listen", "0.0.0.0:0", "--listen-anywhere"},
		"reach needs --token-file":  {"--name", "console.example"},
		"--token-file: secret file": {"--token-file", file("") + "x"},
		"secret file is empty":      {"--token-file", file("\n")},
		"fewer than 16 characters":  {"--token-file", file("short")},
		"openssl rand -base64 24":   {"--token-file", file("fifteen letters\n")},
	} {
		a := r.ctl(append([]string{"console"}, line...)...)
		if a.code != exitUsage || !strings.Contains(a.err, want) {
			t.Errorf("%q: exit %d, want %q in %s", line, a.code, want, a.err)
		}
	}
	if a := call(t, nil, "console"); a.code != exitUsage || !strings.Contains(a.err, "no database") {
		t.Errorf("exit %d: %s", a.code, a.err)
	}
}

// TestConsoleServesUntilItIsStopped asks for a page of the ledger and for the
// explorer below it, and watches when the program is told to end: a stream must not
// hold it back.
func TestConsoleServesUntilItIsStopped(t *testing.T) {
	r := newRig(t)
	k := r.one()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"console", "--open-less"}, r.env, nil, in, io.Discard)
		_ = in.Close() // a pipe's end never fails to close
	}()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("no address: exit %d", <-code)
	}
	get := func(path string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, lines.Text()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := new(http.Client).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	for path, want := range map[string]string{"": "demanded, and not built yet", "matter?of=" + k.String(): "a worker with a free slot claims it", "model/?model=router": "A claims"} {
		if body, err := io.ReadAll(get(path).Body); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: no %q, %v in %s", path, want, err, body)
		}
	}
	if stream := get("live?of="); stream.StatusCode != http.StatusOK {
		t.Errorf("status %d", stream.StatusCode)
	}
	stop()
	if got := <-code; got != exitOK {
		t.Errorf("exit %d, want %d", got, exitOK)
	}
}
