package specs_test

import (
	"testing"

	"briefrail/internal/model/specs"
)

// relayFigures are relays, faults, facts; states, transitions, depth.
var relayFigures = [][6]int{ // constant
	{1, 0, 1, 34, 63, 8},
	{2, 0, 1, 65, 123, 8},
	{2, 1, 1, 991, 2941, 16},
	{2, 2, 1, 7158, 28837, 19},
	{2, 1, 2, 16235, 64559, 22},
	{2, 2, 2, 165520, 812146, 28},
	{3, 3, 1, 90921, 489950, 25},
}

// With every defence on everything holds, and what must be possible is.
func TestRelayFigures(t *testing.T) {
	t.Parallel()
	for _, row := range relayFigures {
		r := check(t, find(t, "relay", specs.Options{Workers: row[0], Faults: row[1], Demands: row[2]}))
		holds(t, r)
		if got := [...]int{row[0], row[1], row[2], r.States, r.Transitions, r.Depth}; got != row {
			t.Errorf("%s: got %v, want %v", r.Title, got, row)
		}
	}
}
