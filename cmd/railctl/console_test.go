package main

import (
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
	lines, stop := serving(t, r.env, "console", "--open-less")
	if !lines.Scan() {
		stop()
		t.Fatal("no address")
	}
	for path, want := range map[string]string{"": "demanded, and not built yet", "matter?of=" + k.String(): "a worker with a free slot claims it", "model/?model=router": "A claims"} {
		if body, err := io.ReadAll(fetch(t, lines.Text()+path).Body); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: no %q, %v in %s", path, want, err, body)
		}
	}
	if stream := fetch(t, lines.Text()+"live?of="); stream.StatusCode != http.StatusOK {
		t.Errorf("status %d", stream.StatusCode)
	}
	stop()
}
