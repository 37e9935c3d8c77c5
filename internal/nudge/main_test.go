package nudge_test

import (
	"os"
	"strings"
	"testing"

	"briefrail/internal/nudge/nudgetest"
)

// onAWS reports whether the person wants the tests that need an account.
func onAWS() bool { return os.Getenv("RAIL_TEST_AWS") == "1" }

// TestMain keeps the machine's own AWS settings out of the tests, unless they are
// wanted.
func TestMain(m *testing.M) {
	if onAWS() {
		os.Exit(m.Run())
	}
	for _, pair := range nudgetest.Environment() {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
