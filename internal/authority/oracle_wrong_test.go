package authority_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"briefrail/internal/authority/rivals"
)

// Fences that were turned down, or are wrong by one word. The oracle that finds nothing
// wrong with ours finds each of these out.
func TestTheOracleKnowsWrongFences(t *testing.T) {
	t.Parallel()
	only := func(how string, statements []string) map[string][]string { return map[string][]string{how: statements} }
	late := []error{errLate, errPosition} // whichever is looked at first
	c := clusterOfOracles(t)
	for name, wrong := range map[string]struct {
		altered string
		ways    map[string][]string
		each    int // of each way
		close   time.Duration
		finds   []error
	}{
		"a lock of the row": {
			altered: rivals.RowLock(),
			ways:    only("admitted", admitted), each: 16, close: 2 * time.Second, finds: []error{errStarved},
		},
		"a horizon of transaction ids":      {altered: rivals.Horizon(), ways: only("admitted", admitted), each: 6, finds: late},
		"a lock at the admission only":      {altered: rivals.AdmissionOnly, ways: only("admitted", admitted), each: 6, finds: late},
		"nothing asked at the commit":       {altered: rivals.AdmissionOnly, ways: only("raw", []string{insertSQL}), each: 4, finds: late},
		"a position read before the lock":   {altered: rivals.EarlyPosition, ways: allWays(), each: 1, finds: []error{errPosition}},
		"REPEATABLE READ is let in as well": {altered: rivals.AnyIsolation, ways: only("unfresh", unfresh), each: 6, finds: late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOracle(t, c, wrong.altered)
			if wrong.close > 0 {
				o.close = wrong.close
			}
			var writing []scribbler
			for range wrong.each {
				writing = append(writing, o.scribblers(t, wrong.ways, nil)...)
			}
			err := o.run(t, 1000, writing)
			if !slices.ContainsFunc(wrong.finds, func(f error) bool { return errors.Is(err, f) }) {
				t.Fatalf("after %d crossings: %v, want: %v; writes: %s", o.moved, err, wrong.finds, told(writing))
			}
			t.Logf("found out after %d crossings: %v", o.moved, err)
		})
	}
}
