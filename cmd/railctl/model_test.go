package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"briefrail/internal/model/specs"
)

// models runs "railctl model" without any database.
func models(t *testing.T, args ...string) answer {
	t.Helper()
	return call(t, nil, append([]string{"model"}, args...)...)
}

// modelData runs "railctl model" with -o json and returns the data of the envelope.
func modelData[T any](t *testing.T, kind string, code int, args ...string) (data T) {
	t.Helper()
	got := models(t, append(args, "-o", "json")...)
	if got.code != code {
		t.Fatalf("%v: exit %d, want %d: %s", args, got.code, code, got.err)
	}
	e := struct {
		Schema, Kind string
		Data         *T
	}{Data: &data}
	if err := json.Unmarshal([]byte(got.out), &e); err != nil || e.Schema != outputSchema || e.Kind != kind {
		t.Fatalf("%v: %v in %s", args, err, got.out)
	}
	return data
}

// checkedModel is the part of a report that scripts rely on.
type checkedModel struct {
	Model, Title        string
	States, Transitions int
	Complete            bool
	Properties          []struct {
		Name, Kind string
		OK         bool
		BadStates  int `json:"bad_states"`
		Trace      []string
	}
}

func TestModelCheckAsData(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		args                string
		code                int
		states, transitions int
	}{
		{"--model router", exitOK, 301, 806},
		{"--model router --workers 3 --faults 3 --with idem,lease,fence", exitOK, 3369, 13679},
		{"--model router --workers 2 --faults 0 --with none", exitOK, 13, 0},
		{"--model router --without idem,fence", exitError, 485, 1222},
		{"--model job --version v1", exitError, 149, 0},
		{"--model job", exitOK, 113, 0},
		{"--model batch --gate first", exitError, 29, 28},
		{"--model batch --gate record", exitOK, 29, 28},
		{"--model authority --faults 0 --attempts 1", exitOK, 1139, 3095},
		{"--model authority --faults 1 --attempts 1 --without lock-b", exitError, 14691, 49182},
	} {
		r := modelData[checkedModel](t, "model.check", x.code, append([]string{"check"}, strings.Fields(x.args)...)...)
		if r.States != x.states || (x.transitions > 0 && r.Transitions != x.transitions) || !r.Complete {
			t.Errorf("%s: %+v", x.args, r)
		}
	}
	r := modelData[checkedModel](t, "model.check", exitError, "check", "--model", "router", "--without", "fence")
	if p := r.Properties[1]; p.OK || p.BadStates != 12 || len(p.Trace) != 7 || p.Trace[4] != "A marks ROUTED" {
		t.Errorf("%+v", p)
	}
}

func TestModelCheckOfAll(t *testing.T) {
	t.Parallel()
	all := modelData[struct{ Models []checkedModel }](t, "model.check.all", exitOK, "check")
	if len(all.Models) != len(specs.List()) {
		t.Errorf("%d models are checked", len(all.Models))
	}
	for _, r := range all.Models {
		if !r.Complete || r.States == 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestModelCheckForPeople(t *testing.T) {
	t.Parallel()
	got := models(t, "check", "--model", "batch", "--gate", "first")
	same(t, `
batch, first
29 states, 28 transitions, depth 4

PROPERTY  KIND  VERDICT  BAD STATES
no flagged record on the default path  never  BROKEN  4
a flagged record is processed  reachable  ok  0

no flagged record on the default path is broken after 3 steps:
  1  enqueue flag-less
  2  enqueue flagged
  3  process batch
`, got.out)
	if got.code != exitError || !strings.Contains(got.err, "1 of 2 properties are broken") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	if got := models(t, "check", "--model", "batch", "--gate", "first", "-o", "name"); got.out != "no flagged record on the default path\n" {
		t.Errorf("names %q", got.out)
	}
}

func TestModelTrace(t *testing.T) {
	t.Parallel()
	tr := modelData[traceRead](t, "model.trace", exitOK, "trace", "--model", "router", "--without", "fence")
	last := tr.Steps[len(tr.Steps)-1]
	if len(tr.Steps) != 7 || tr.OK || !tr.Steps[2].Fault || last.Label != "B resets to PENDING" || last.State[0].Value != "PENDING" || last.Changed[0] != "status" {
		t.Errorf("%+v", tr)
	}
	tr = modelData[traceRead](t, "model.trace", exitOK, "trace", "--model", "router", "--property", "can be ROUTED")
	if !tr.OK || len(tr.Steps) != 3 {
		t.Errorf("%+v", tr)
	}
	same(t, `
router, 2 workers, 1 fault, no defence
recovers to ROUTED: broken

STEP  WHAT HAPPENS  status  epoch  A  faults left
0  absent  0  idle  1
1  A claims  ROUTING  1  claimed (epoch 1)  1
2  A crashes (fault)  ROUTING  1  done  0
`, models(t, "trace", "--model", "router", "--with", "none", "--faults", "1", "--property", "recovers to ROUTED").out)
	for want, args := range map[string][]string{
		"every property holds": {"trace", "--model", "router"},
		"there is no trace":    {"trace", "--model", "router", "--property", "ROUTED is final"},
	} {
		if got := models(t, args...); got.code != exitNotFound || !strings.Contains(got.err, want) {
			t.Errorf("%v: exit %d: %s", args, got.code, got.err)
		}
	}
}

// traceRead is a trace as scripts read it.
type traceRead struct {
	OK    bool
	Steps []struct {
		Label   string
		Fault   bool
		State   []struct{ Name, Value string }
		Changed []string
	}
}

func TestModelWalkAndSchedules(t *testing.T) {
	t.Parallel()
	w := modelData[struct {
		Hits  int
		Exact float64
	}](t, "model.walk", exitOK, "walk", "--model", "router", "--with", "none", "--property", "recovers to ROUTED")
	if w.Hits != 7230 || w.Exact < .7222 || w.Exact > .7223 {
		t.Errorf("%+v", w)
	}
	if got := models(t, "walk", "--model", "router", "--with", "none", "--property", "recovers to ROUTED").out; !strings.Contains(got, "72.222 %, median step 3") {
		t.Error(got)
	}
	s := modelData[struct{ Schedules int }](t, "model.schedules", exitOK, "schedules", "--model", "router", "--with", "none", "--steps", "12")
	if s.Schedules != 154_599 {
		t.Errorf("%+v", s)
	}
}

func TestModelGraph(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"dot": "digraph", "mermaid": "flowchart LR"} {
		if got := models(t, "graph", "--model", "batch", "--format", format); got.code != exitOK || !strings.HasPrefix(got.out, want) {
			t.Errorf("%s: exit %d: %s%s", format, got.code, got.out, got.err)
		}
	}
	if got := models(t, "graph", "--model", "router", "--max-states", "5"); got.code != exitError || got.out != "" {
		t.Errorf("exit %d, and a part of a graph: %s", got.code, got.out)
	}
}

func TestModelList(t *testing.T) {
	t.Parallel()
	names := strings.Fields(models(t, "list", "-o", "name").out)
	table := models(t, "list").out
	for i, e := range specs.List() {
		if names[i] != e.Name || !strings.Contains(table, e.About) {
			t.Errorf("%s is missing in %s", e.Name, table)
		}
	}
}

func TestModelWrongUse(t *testing.T) {
	t.Parallel()
	for want, line := range map[string]string{
		"--model is needed":                "trace",
		`no model "x": there are router`:   "check --model x",
		"99 workers: give 1 to 8":          "check --model router --workers 99",
		"--workers 0: give 1 or more":      "check --model router --workers 0",
		"--faults -1: give 0 or more":      "check --model router --faults -1",
		"--max-states -4: give 1 or more":  "check --model router --max-states -4",
		"--with is empty":                  "check --model router --with=",
		`no switch "fences"`:               "check --model router --without fences",
		"both with and without":            "check --model router --without fence --with idem",
		"--workers needs --model":          "check --workers 3",
		"has no versions":                  "check --model router --version v1",
		`there are v0, v1, v2`:             "check --model job --version v7",
		`"ROUTED is final"`:                "walk --model router --property x",
		`--format "svg": use dot, mermaid`: "graph --model batch --format svg",
		"in the form of --format only":     "graph --model batch -o json",
		"is not loopback":                  "explore --listen 0.0.0.0:0",
		"give HOST:PORT":                   "explore --listen 8080",
		"railctl model needs one of":       "",
		"--steps -1: give 0 to":            "schedules --model batch --steps -1",
		"--timeout -1s: give a time, or 0": "check --model batch --timeout -1s",
	} {
		if got := models(t, strings.Fields(line)...); got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("%s: exit %d, want %q in %s", line, got.code, want, got.err)
		}
	}
	if got := models(t, "walk", "--model", "router", "--property", "ROUTED is final", "--walks", "0"); got.code != exitUsage || !strings.Contains(got.err, "--walks 0: give 1 to") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

// A search that is ended says what it found until then, and does not pass for a
// whole one.
func TestModelCheckThatIsEnded(t *testing.T) {
	t.Parallel()
	got := models(t, "check", "--model", "router", "--without", "fence", "--max-states", "340")
	for _, want := range []string{"the search was ended before it was complete", "ROUTED is final     never        BROKEN", "at most one L2      never        open"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in\n%s", want, got.out)
		}
	}
	if got.code != exitError || !strings.Contains(got.err, "--max-states") || !strings.Contains(got.err, "broken in what was found: 1 of 4") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	long := []string{"check", "--model", "router", "--workers", "6", "--faults", "100", "--without", "fence"}
	if got := models(t, append(long, "--timeout", "100ms")...); got.code != exitTimeout || !strings.Contains(got.err, "--timeout 100ms is up") || !strings.Contains(got.out, "the search was ended before it was complete") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
}

// Ctrl-C is the end of the context; on a terminal one has seen how far it was.
func TestModelCheckThatIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	out, errs := &bytes.Buffer{}, &signalling{seen: make(chan struct{})}
	a := &app{stdin: strings.NewReader(""), stdout: out, stderr: errs, now: time.Now, watched: true}
	code := make(chan int, 1)
	go func() {
		code <- a.execute(ctx, []string{"model", "check", "--model", "router", "--workers", "6", "--faults", "100", "--max-states", "1000000000"})
	}()
	select {
	case <-errs.seen:
	case got := <-code:
		t.Fatalf("exit %d: %s%s", got, out, &errs.text)
	}
	interrupt()
	if got := <-code; got != exitError || !strings.Contains(out.String(), "the search was ended before it was complete") || !strings.Contains(errs.text.String(), "stopped after") {
		t.Errorf("exit %d: %s%s", got, out, &errs.text)
	}
}

// signalling tells when progress has been written.
type signalling struct {
	text bytes.Buffer
	seen chan struct{}
	told bool
}

func (s *signalling) Write(p []byte) (int, error) {
	n, err := s.text.Write(p)
	if !s.told && strings.Contains(s.text.String(), " states, ") && strings.Contains(s.text.String(), "/s, depth ") {
		s.told = true
		close(s.seen)
	}
	return n, err
}

func TestModelExplore(t *testing.T) {
	t.Parallel()
	lines, stop := serving(t, nil, "model", "explore", "--open-less")
	if !lines.Scan() {
		stop()
		t.Fatal("no address")
	}
	if body, err := io.ReadAll(fetch(t, lines.Text()+"?model=router").Body); err != nil || !strings.Contains(string(body), "A claims") {
		t.Errorf("%v in %s", err, body)
	}
	stop()
}
