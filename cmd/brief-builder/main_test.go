package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"briefrail/internal/brief"
	"briefrail/internal/pg/pgtest"
)

const (
	firm   = "11111111-1111-4111-8111-111111111111"
	matter = "22222222-2222-4222-8222-222222222222"
)

// ran runs the program in this process and returns what it wrote.
func ran(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	var out, errOut bytes.Buffer
	err := run(t.Context(), args, env, &out, &errOut)
	return out.String() + errOut.String(), err
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	db := "BRIEF_DATABASE_URL=postgres://nobody@127.0.0.1:1/none"
	cases := []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"nothing", nil, nil, "no command"},
		{"unknown command", nil, []string{"frobnicate"}, `no command "frobnicate"`},
		{"misspelt variable", []string{"BRIEF_DATABSE_URL=x"}, []string{"version"}, "unknown variable BRIEF_DATABSE_URL"},
		{"unknown flag", []string{db}, []string{"serve", "--frob"}, "unknown flag"},
		{"no database", nil, []string{"serve"}, "no database"},
		{"two databases", []string{db, "BRIEF_DATABASE_URL_FILE=/dev/null"}, []string{"serve"}, "keep one of them"},
		{"no such file", []string{"BRIEF_DATABASE_URL_FILE=/nowhere"}, []string{"migrate"}, "no such file"},
		{"delay without unit", []string{db, "BRIEF_DELAY=3"}, []string{"serve"}, "use a unit"},
		{"negative delay", []string{db}, []string{"serve", "--delay", "-1s"}, "must not be negative"},
		{"no folder", []string{db}, []string{"ingest", "--firm", firm, "--matter", matter}, "takes 1 argument(s) DIR, got 0"},
		{"no firm", []string{db}, []string{"ingest", ".", "--matter", matter}, "--firm"},
		{"matter is no UUID", []string{db}, []string{"ingest", ".", "--firm", firm, "--matter", "7"}, "--matter"},
		{"unknown format", []string{db}, []string{"ingest", ".", "--firm", firm, "--matter", matter, "-o", "xml"}, "text or json"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := ran(t, c.env, c.args...)
			var errOut bytes.Buffer
			if code := exitCode(err, &errOut); code != 2 || !strings.Contains(errOut.String(), c.want) {
				t.Errorf("exit %d: %s; want 2 and %q", code, errOut.String(), c.want)
			}
		})
	}
}

// A folder that is not there is named, before anything is connected to.
func TestIngestNamesAFolderThatIsNone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{"/nope": "stat /nope: no such file", file: file + " is not a folder"} {
		_, err := ran(t, []string{"BRIEF_DATABASE_URL=postgres://nobody@127.0.0.1:1/none"}, "ingest", dir, "--firm", firm, "--matter", matter)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help"}, {"version"}, {"serve", "--help"}, {"ingest", "--help"}} {
		out, err := ran(t, nil, args...)
		if code := exitCode(err, &bytes.Buffer{}); code != 0 || !strings.Contains(out, "brief-builder") {
			t.Errorf("%v: exit %d, %q", args, code, out)
		}
	}
}

// TestWholeService migrates, takes in a folder twice, serves and answers, as an
// operator would, with the connection string in a file.
func TestWholeService(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	secret := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(secret, []byte(db.DSN+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"BRIEF_DATABASE_URL_FILE=" + secret, "OTHER=1"}
	if out, err := ran(t, env, "migrate"); err != nil || !strings.Contains(out, "1 migration(s)") {
		t.Fatalf("%s %v", out, err)
	}
	docs := t.TempDir()
	if err := os.CopyFS(docs, brief.Samples()); err != nil {
		t.Fatal(err)
	}
	ingest := []string{"ingest", docs, "--firm", firm, "--matter", matter}
	if out, err := ran(t, env, ingest...); err != nil || strings.Count(out, "added") != 3 {
		t.Fatalf("%s %v", out, err)
	}
	out, err := ran(t, env, append(ingest, "-o", "json")...)
	var report struct{ Documents []brief.Ingested }
	if err := errors.Join(err, json.Unmarshal([]byte(out), &report)); err != nil || len(report.Documents) != 3 || report.Documents[0].Outcome != brief.OutcomePresent {
		t.Fatalf("%s %v", out, err)
	}
	addr := serving(t, env)
	frame := builtOver(t, addr)
	if frame.Counts.Documents != 3 || frame.Counts.Parties != 2 {
		t.Errorf("%+v", frame.Counts)
	}
}

// What needs the tables says which command makes them, and does nothing else.
func TestBeforeMigrate(t *testing.T) {
	t.Parallel()
	env := []string{"BRIEF_DATABASE_URL=" + pgtest.New(t).DSN}
	for _, args := range [][]string{
		{"ingest", t.TempDir(), "--firm", firm, "--matter", matter},
		{"serve", "--listen", "127.0.0.1:0"},
	} {
		out, err := ran(t, env, args...)
		var errOut bytes.Buffer
		if code := exitCode(err, &errOut); code != 1 || !strings.Contains(errOut.String(), "run `brief-builder migrate`") || out != "" {
			t.Errorf("%v: exit %d, %s%s", args, code, out, errOut.String())
		}
	}
}

func TestIngestWithoutALedger(t *testing.T) {
	t.Parallel()
	env := []string{"BRIEF_DATABASE_URL=" + pgtest.Empty(t).DSN}
	if out, err := ran(t, env, "migrate"); err != nil {
		t.Fatal(out, err)
	}
	docs := t.TempDir()
	if err := os.CopyFS(docs, brief.Samples()); err != nil {
		t.Fatal(err)
	}
	if _, err := ran(t, env, "ingest", docs, "--firm", firm, "--matter", matter); err == nil || !strings.Contains(err.Error(), "railctl migrate up") {
		t.Errorf("%v", err)
	}
}

// serving starts the service on a free port, waits until it is ready, and ends it
// with the test.
func serving(t *testing.T, env []string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"serve", "--listen", addr}, env, &bytes.Buffer{}, &bytes.Buffer{})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve ended with %v", err)
		}
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		if _, err := ran(t, env, "healthcheck", "--listen", addr); err == nil {
			return addr
		}
	}
	t.Fatal("the service did not become ready")
	return ""
}

func builtOver(t *testing.T, addr string) brief.Frame {
	t.Helper()
	const run = "33333333-3333-4333-8333-333333333333"
	body := `{"firm_id":"` + firm + `","matter_id":"` + matter + `","generation":1,"run_id":"` + run +
		`","attempt":1,"retry_of":null,"deadline":"2026-01-31T12:00:00Z"}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/build", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", run)
	resp, err := (&http.Client{Timeout: 20 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct{ Frame brief.Frame }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %v", resp.Status, err)
	}
	return answer.Frame
}
