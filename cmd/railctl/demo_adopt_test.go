package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"briefrail/internal/rail"
)

// TestDemoAdopt plays the adoption with real processes, as make demo-adopt does.
func TestDemoAdopt(t *testing.T) {
	t.Parallel()
	bin := buildPrograms(t)
	railctl := filepath.Join(bin, "railctl")
	if out, err := exec.CommandContext(t.Context(), railctl, "demo-adopt").CombinedOutput(); err == nil || !strings.Contains(string(out), "legacy is not beside railctl") {
		t.Errorf("without the old worker's program: %v\n%s", err, out)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", bin+"/", "briefrail/examples/legacy")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd, tmp := demoCmd(t, ctx, railctl)
	cmd.Args = []string{railctl, "demo-adopt", "--plain"}
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	wantNothingLeft(t, tmp)
	for _, line := range []string{
		"is written by rail, not by legacy", "6 of 6 crossings verified", "under epoch 3", "is not permitted to log in",
		"the canary tried role legacy_worker", "each with exactly one result", "nothing was lost", "no other bucket ever stopped",
	} {
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

func TestManyScopesAreAbridged(t *testing.T) {
	t.Parallel()
	for want, args := range map[string]string{
		"configure --writer legacy matters/bucket-01 … (2 more)": "configure --writer legacy matters/bucket-01 matters/bucket-02 matters/bucket-03",
		"exercised matters/bucket-01 restore":                    "exercised matters/bucket-01 restore",
		"guard t --key k":                                        "guard t --key k",
	} {
		if got := strings.Join(abridged(strings.Fields(args)), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The crowd has matters in as many buckets as cross, and in as many that stay.
func TestTheCrowdIsSpread(t *testing.T) {
	t.Parallel()
	c := &crowd{keys: spreadMatters(rail.NewUUID())}
	if n := len(c.scopes()); n != 2*adoptBuckets {
		t.Errorf("%d buckets", n)
	}
	for _, scope := range c.scopes() {
		if n := c.mattersOf(scope); n != adoptMatters {
			t.Errorf("%s has %d matters", scope, n)
		}
	}
}
