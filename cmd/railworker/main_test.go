package main

import (
	"context"
	"os"
	"testing"
	"time"
)

// TestMain lets the test binary stand for the program: the processes that these
// tests start, stop and kill are the real ones, built with the race detector when
// the tests are.
func TestMain(m *testing.M) {
	if os.Getenv("RAIL_TEST_RUN_MAIN") != "1" {
		os.Exit(m.Run())
	}
	go endWithParent()
	main()
}

// endWithParent keeps a worker from outliving a test binary that was killed.
func endWithParent() {
	parent := os.Getppid()
	for range time.Tick(time.Second) {
		if os.Getppid() != parent {
			os.Exit(3)
		}
	}
}

// full reports whether the tests run at their whole size.
func full() bool { return os.Getenv("RAIL_TEST_LOAD") == "full" }

// sized is the size of a test: the second in the full profile.
func sized(usual, whole int) int {
	if full() {
		return whole
	}
	return usual
}

// eventually waits until cond holds, and fails the test with what it waited for.
func eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	if !waitFor(t.Context(), within, cond) {
		t.Fatalf("after %s still not: %s", within, what)
	}
}

func waitFor(ctx context.Context, within time.Duration, cond func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(within)
	defer end.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-end.C:
			return cond()
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// pass lets time go by for a claim about a duration; nothing is awaited.
func pass(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
