package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Every peer that this machine can run finds as many states and transitions as the
// checker.
func TestPeersCountTheSame(t *testing.T) {
	t.Parallel()
	peers, err := newPeers(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []bound{{2, 1}, {2, 2}} {
		want, err := search(t.Context(), b, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range peers {
			if q.own {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d-%d", q.name, b.workers, b.faults), func(t *testing.T) {
				if q.missing != "" {
					t.Skip(q.missing)
				}
				r, err := q.measure(t.Context(), b, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				if r.counts != want {
					t.Errorf("%v, want %v", r.counts, want)
				}
			})
		}
	}
}

func TestCountsThatDiffer(t *testing.T) {
	t.Parallel()
	b := bound{2, 2}
	first := &peer{name: "one", runs: map[bound][]result{b: {{counts: counts{3, 4}}}}}
	other := &peer{name: "other", runs: map[bound][]result{b: {{counts: counts{3, 5}}}}}
	err := agree(plan{bounds: []bound{b}}, []*peer{first, other})
	if err == nil || !strings.Contains(err.Error(), "other counts 3 states, 5 transitions, one 3 states, 4 transitions") {
		t.Errorf("got %v", err)
	}
	if err := agree(plan{bounds: []bound{b}}, []*peer{first, first}); err != nil {
		t.Error(err)
	}
}

func TestParseBounds(t *testing.T) {
	t.Parallel()
	got, err := parseBounds("2/1,3/3")
	if err != nil || fmt.Sprint(got) != "[2/1 3/3]" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, wrong := range []string{"", "2", "2/1,", "2/x", "2/1x"} {
		if got, err := parseBounds(wrong); err == nil {
			t.Errorf("%q: got %v", wrong, got)
		}
	}
}
