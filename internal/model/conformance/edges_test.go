package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

type (
	graph = model.Graph[specs.LedgerState, specs.LedgerAct]
	edge  = model.Edge[specs.LedgerAct]
)

// attempts is the model's default cap.
const attempts = 2

func search(t *testing.T, o specs.Options) *graph {
	t.Helper()
	o.Attempts = attempts
	m, err := specs.Ledger(o)
	if err != nil {
		t.Fatal(err)
	}
	g, err := model.Search(t.Context(), m, model.Options{Edges: true})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Every edge of the ledger's reachable graph, on the real code. RAIL_TEST_LOAD=full
// takes those of three workers too.
func TestEveryEdgeOfTheLedger(t *testing.T) {
	t.Parallel()
	workers := 2
	if os.Getenv("RAIL_TEST_LOAD") == "full" {
		workers = 3
	}
	g := search(t, specs.Options{Workers: workers, Faults: 2})
	c := &campaign{graph: g, took: make(map[edge]bool), asked: make([]atomic.Bool, g.States())}
	started := time.Now()
	c.run(t, 4)
	figures := fmt.Sprintf("%d of %d edges, %d states, %d steps in %d walks", len(c.took), g.Transitions(), g.States(), c.steps, c.walks)
	t.Logf("conformance, %d workers and 2 faults: %s, %.1f seconds", workers, figures, time.Since(started).Seconds())
	if len(c.took) != g.Transitions() {
		t.Errorf("%d edges were not taken", g.Transitions()-len(c.took))
	} else if workers == 2 {
		document(t, "conformance figures", figures+".\n")
	}
}

// A large frame comes in by COPY, and lands in a transaction of several statements:
// every edge again, within smaller bounds.
func TestEveryEdgeWithLargeFrames(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, attempts)
	db.builds(t, `{"pad":"`+strings.Repeat("x", 300<<10)+`"}`)
	if err := find(t, db, search(t, specs.Options{Workers: 2, Faults: 1, Demands: 1}), 0); err != nil {
		t.Error(err)
	}
	db.CheckLedger(t)
}

// It takes three demands for two of them to come during one build: every edge again,
// within smaller bounds.
func TestEveryEdgeOfThreeDemands(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, attempts)
	if err := find(t, db, search(t, specs.Options{Workers: 1, Faults: 1, Demands: 3}), 0); err != nil {
		t.Error(err)
	}
	db.CheckLedger(t)
}

// campaign walks a graph with several matters at once, each in a database of its own,
// as a claim takes whatever is queued.
type campaign struct {
	graph *graph
	asked []atomic.Bool // states in which what is not offered was asked for

	mu           sync.Mutex
	took         map[edge]bool
	steps, walks int
}

func (c *campaign) run(t *testing.T, databases int) {
	t.Helper()
	walks := make(chan []edge)
	var all sync.WaitGroup
	for i := range databases {
		db := newDatabase(t, attempts)
		if i%2 == 1 {
			db.patience = time.Minute // of settling and backing off
		}
		all.Go(func() {
			for walk := range walks {
				if err := c.walk(t.Context(), db, walk); err != nil {
					t.Error(err)
				}
				db.tidy(t)
			}
			db.CheckLedger(t)
		})
	}
	for walk := range c.graph.Cover(0) {
		if t.Failed() {
			break
		}
		walks <- walk
	}
	close(walks)
	all.Wait()
}

// walk takes one path. Its error is a story that can be followed.
func (c *campaign) walk(ctx context.Context, db *database, path []edge) error {
	m, err := db.newMatter(ctx)
	if err != nil {
		return err
	}
	for i, e := range path {
		err := m.step(ctx, e.Action, c.graph.State(e.From), c.graph.State(e.To))
		if err == nil && c.asked[e.To].CompareAndSwap(false, true) {
			err = m.askForMore(ctx, c.graph.State(e.To))
		}
		if err != nil {
			return fmt.Errorf("after\n  %s\n%w", strings.Join(c.graph.Labels(path[:i+1]), "\n  "), err)
		}
	}
	c.mu.Lock()
	for _, e := range path {
		c.took[e] = true
	}
	c.steps, c.walks = c.steps+len(path), c.walks+1
	c.mu.Unlock()
	return m.leave(ctx)
}

// askForMore asks in a state for what the model does not offer there: a claim where
// nothing is queued, a sweep where no lease has run out. Both must come back empty.
func (m *matter) askForMore(ctx context.Context, s specs.LedgerState) error {
	if s.Row.Status != specs.StatusQueued {
		if got, err := m.claimNow(ctx, 0); err != nil || len(got) > 0 {
			return &difference{"a claim where nothing is queued", errors.Join(fmt.Errorf("claimed %d of a %s row", len(got), s.Row.Status), err)}
		}
	}
	if s.Row.Status != specs.StatusRunning || !s.Row.Expired {
		if got, err := m.sweepNow(ctx); err != nil || len(got) > 0 {
			return &difference{"a sweep where no lease has run out", errors.Join(fmt.Errorf("swept %d of a %s row", len(got), s.Row.Status), err)}
		}
	}
	return nil
}
