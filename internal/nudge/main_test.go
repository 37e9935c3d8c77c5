package nudge_test

import (
	"os"
	"strings"
	"testing"

	"briefrail/internal/nudge/nudgetest"
)

// TestMain keeps the machine's own AWS settings out of the tests.
func TestMain(m *testing.M) {
	for _, pair := range nudgetest.Environment() {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
