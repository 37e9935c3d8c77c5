package specs_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/model/specs"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/*.txt anew")

// golden compares a text with its file below testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./internal/model/specs -rewrite writes it)", err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got; -rewrite accepts it):\n%s", path, d)
	}
}

// story is a report as its golden file has it.
func story(r specs.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d states, %d transitions, depth %d\n", r.Title, r.States, r.Transitions, r.Depth)
	for _, v := range r.Properties {
		word := "ok"
		if !v.OK {
			word = fmt.Sprintf("BROKEN in %d states", v.BadStates)
		}
		fmt.Fprintf(&b, "\n%s %q: %s\n", v.Kind, v.Name, word)
		for _, step := range v.Trace {
			fmt.Fprintf(&b, "  %s\n", step)
		}
	}
	return b.String()
}

// Every variant of the published models, with its shortest traces.
func TestTraces(t *testing.T) {
	t.Parallel()
	files := map[string]specs.Checked{}
	for _, f := range []string{specs.None, "fence", "idem", "idem+fence", "lease", "lease+fence", "idem+lease", "idem+lease+fence"} {
		files["router-"+strings.ReplaceAll(f, "+", "-")] = find(t, "router", fixes(f))
	}
	for _, v := range []string{"v0", "v1", "v2"} {
		files["job-"+v] = find(t, "job", specs.Options{Version: v, Faults: specs.Default})
	}
	for _, g := range []string{"first", "record"} {
		files["batch-"+g] = find(t, "batch", specs.Options{Gate: g})
	}
	for file, c := range files {
		golden(t, file+".txt", story(check(t, c)))
	}
}

// The traces that the study prints, in its own words.
func TestPublishedTraces(t *testing.T) {
	t.Parallel()
	v1 := specs.Options{Version: "v1", Faults: specs.Default}
	for _, row := range []struct {
		model    string
		options  specs.Options
		property string
		trace    string
	}{
		{"router", fixes(specs.None), "recovers to ROUTED", "A claims; A crashes"},
		{
			"router", fixes(specs.None), "at most one L2",
			"A claims; A's dispatch times out (was sent); A resets to PENDING; B claims; B dispatches",
		},
		{
			"router", fixes("lease"), "at most one L2",
			"A claims; A dispatches; A pauses past its lease; B reclaims; B dispatches",
		},
		{
			"router", fixes("idem+lease"), "ROUTED is final",
			"A claims (epoch 1); A dispatches; A pauses, lease expires; B claims (epoch 2); A marks ROUTED; B's dispatch fails; B resets to PENDING",
		},
		{
			"job", v1, "at most one done write",
			"A inserts; A pauses past its lease; B reclaims; A writes done; B writes done",
		},
		{
			"job", v1, "done is final",
			"A inserts; A pauses past its lease; B reclaims; A writes done; B's engine error writes error",
		},
		{
			"batch",
			specs.Options{Gate: "first"},
			"no flagged record on the default path",
			"enqueue flag-less; enqueue flagged; process batch",
		},
	} {
		c := find(t, row.model, row.options)
		for _, v := range check(t, c).Properties {
			if v.Name != row.property {
				continue
			}
			if d := cmp.Diff(row.trace, strings.Join(v.Trace, "; ")); d != "" {
				t.Errorf("%s, %s: %s", c.Title(), v.Name, d)
			}
			replayed(t, c, v.Path, v.Trace)
		}
	}
}

// replayed follows a verdict's path by hand, as the page does.
func replayed(t *testing.T, c specs.Checked, path []int, trace []string) {
	t.Helper()
	scene, err := c.Explore(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(trace, scene.Trace); d != "" {
		t.Errorf("%s: the path and the trace part: %s", c.Title(), d)
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	text, err := json.MarshalIndent(check(t, find(t, "job", specs.Options{Version: "v0", Faults: 1})), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json.txt", string(text)+"\n")
}
