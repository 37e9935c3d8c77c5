package specs_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"briefrail/internal/model/specs"
)

// The fixed router is also written for SPIN and in Python (testdata/router.pml and
// .py): others' counts to agree with, and others' speed to stand beside. Both are
// left out where the program is missing.

// spin builds SPIN's checker for the router and returns how to run it.
func spin(t testing.TB, invocations, faults int) (string, []string) {
	t.Helper()
	model, err := filepath.Abs("testdata/router.pml")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "spin", "-V").Output(); err != nil || !strings.Contains(string(out), "Spin Version") {
		t.Skip("SPIN is not installed (Debian: apt-get install spin)")
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("SPIN wants a C compiler")
	}
	dir := t.TempDir()
	for _, line := range [][]string{
		{"spin", fmt.Sprintf("-DN=%d", invocations), fmt.Sprintf("-DB=%d", faults), "-o2", "-a", model},
		{"cc", "-O2", "-w", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c"},
	} {
		c := exec.CommandContext(t.Context(), line[0], line[1:]...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", line, err, out)
		}
	}
	return filepath.Join(dir, "pan"), []string{"-m1000000", "-w22"}
}

// python tells how to run the search in Python.
func python(t testing.TB, invocations, faults int) (string, []string) {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	return path, []string{"testdata/router.py", strconv.Itoa(invocations), strconv.Itoa(faults)}
}

// run runs a peer and returns the two counts that the pattern finds.
func run(t testing.TB, path string, args []string, pattern string) (states, transitions int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := regexp.MustCompile(pattern).FindStringSubmatch(string(out))
	if m == nil {
		t.Fatalf("no counts in\n%s", out)
	}
	states, _ = strconv.Atoi(m[1])
	transitions, _ = strconv.Atoi(m[2])
	return states, transitions
}

const (
	spinCounts   = `(?s)errors: 0.*?(\d+) states, stored.*?(\d+) transitions`
	pythonCounts = `^(\d+) (\d+)\n$`
)

func TestPeersCountTheSame(t *testing.T) {
	t.Parallel()
	r := check(t, find(t, "router", specs.Options{Workers: 3, Faults: 3}))
	t.Run("spin", func(t *testing.T) {
		t.Parallel()
		path, args := spin(t, 3, 3)
		if states, transitions := run(t, path, args, spinCounts); states != r.States || transitions-1 != r.Transitions {
			t.Errorf("SPIN finds %d states, %d transitions; want %d, %d", states, transitions-1, r.States, r.Transitions)
		}
	})
	t.Run("python", func(t *testing.T) {
		t.Parallel()
		path, args := python(t, 3, 3)
		if states, transitions := run(t, path, args, pythonCounts); states != r.States || transitions != r.Transitions {
			t.Errorf("Python finds %d states, %d transitions; want %d, %d", states, transitions, r.States, r.Transitions)
		}
	})
}

// BenchmarkPeers gives the figures to put beside BenchmarkSearch at the same size.
func BenchmarkPeers(b *testing.B) {
	b.Run("spin/workers=5/faults=4", func(b *testing.B) {
		path, args := spin(b, 5, 4)
		measure(b, path, args, spinCounts)
	})
	b.Run("python/workers=5/faults=4", func(b *testing.B) {
		path, args := python(b, 5, 4)
		measure(b, path, args, pythonCounts)
	})
}

// measure runs a peer, start of its process included.
func measure(b *testing.B, path string, args []string, counts string) {
	total := 0
	for b.Loop() {
		states, _ := run(b, path, args, counts)
		total += states
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "states/s")
}
