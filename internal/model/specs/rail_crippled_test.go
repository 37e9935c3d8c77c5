package specs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

// lost tells whether a crippled model lacks a step.
type lost func(from specs.LedgerState, a specs.LedgerAct, to specs.LedgerState) bool

// lacks leaves out every step of some kinds, or of those only that the condition picks.
func lacks(when func(from, to specs.LedgerState) bool, kinds ...specs.LedgerKind) lost {
	return func(from specs.LedgerState, a specs.LedgerAct, to specs.LedgerState) bool {
		return slices.Contains(kinds, a.Kind) && when(from, to)
	}
}

func always(_, _ specs.LedgerState) bool { return true }

// cripples are steps of the rail that never happen.
func cripples() []struct {
	never string
	lost  lost
} {
	landing := []specs.LedgerKind{specs.LedgerLands, specs.LedgerLandUnheard}
	failing := []specs.LedgerKind{specs.LedgerFails, specs.LedgerGivesUp, specs.LedgerSweeps}
	return []struct {
		never string
		lost  lost
	}{
		{"demand", lacks(always, specs.LedgerDemand)},
		{"demand on a parked row", lacks(func(from, _ specs.LedgerState) bool { return from.Row.Status == specs.StatusParked }, specs.LedgerDemand)},
		{"a claim", lacks(always, specs.LedgerClaims)},
		{"a landing", lacks(always, landing...)},
		{"a landing with the flag", lacks(func(from, _ specs.LedgerState) bool { return from.Row.Flag }, landing...)},
		{"a landing without the flag", lacks(func(from, _ specs.LedgerState) bool { return !from.Row.Flag }, landing...)},
		{"a landing after the lease", lacks(func(from, _ specs.LedgerState) bool { return from.Row.Expired }, landing...)},
		{"a refused landing", lacks(always, specs.LedgerLandFenced, specs.LedgerSettlesRefused)},
		{"a lost answer", lacks(always, specs.LedgerLandUnheard)},
		{"a settled answer", lacks(always, specs.LedgerSettlesLanded)},
		{"a release", lacks(always, specs.LedgerReleases)},
		{"a failover", lacks(always, specs.LedgerRewinds)},
		{"a pause", lacks(always, specs.LedgerPauses)},
		{"a sweep", lacks(always, specs.LedgerSweeps)},
		{"parking", lacks(func(_, to specs.LedgerState) bool { return to.Row.Status == specs.StatusParked }, failing...)},
	}
}

// What a step makes possible is missed where the step never happens: nothing passes
// because the model can do nothing, and each property of that kind is missed by one
// of them.
func TestCrippledLedger(t *testing.T) {
	t.Parallel()
	missed := map[string]bool{}
	var b strings.Builder
	for _, c := range cripples() {
		m := ledger(t, specs.Options{Workers: 2, Faults: 2})
		m.Next = without(m.Next, c.lost)
		fmt.Fprintf(&b, "never %s\n", c.never)
		for _, v := range searched(t, m).Verdicts() {
			if !v.OK {
				missed[v.Name] = true
				fmt.Fprintf(&b, "  %s %q, %d\n", v.Kind, v.Name, v.BadStates)
			}
		}
	}
	golden(t, "ledger/crippled.txt", b.String())
	for _, p := range ledger(t, specs.Options{Workers: 2, Faults: 2}).Properties {
		if p.Kind != model.Never && !missed[p.Name] {
			t.Errorf("%s %q holds whatever is taken away: it says nothing", p.Kind, p.Name)
		}
	}
}

// Steps that do the wrong thing: each is seen by the property that it concerns, those
// among them that no missing defence breaks.
func TestBentLedger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, broken string
		bend         func(from specs.LedgerState, a specs.LedgerAct, to *specs.LedgerState)
	}{
		{"a landing always queues", "a build that nobody asked for", func(_ specs.LedgerState, a specs.LedgerAct, to *specs.LedgerState) {
			if a.Kind == specs.LedgerLands {
				to.Row.Status = specs.StatusQueued
			}
		}},
		{"a parked row stays parked", "a parked job is revived by demand", func(from specs.LedgerState, a specs.LedgerAct, to *specs.LedgerState) {
			if a.Kind == specs.LedgerDemand && from.Row.Status == specs.StatusParked {
				to.Row.Status, to.Met = specs.StatusParked, 0
			}
		}},
		{"a failure forgets the attempts", "more attempts than the cap allows", func(from specs.LedgerState, a specs.LedgerAct, to *specs.LedgerState) {
			if a.Kind == specs.LedgerFails {
				to.Row = from.Row.Fail(0, false)
				to.Row.Attempts = 0
			}
		}},
	} {
		m := ledger(t, specs.Options{Workers: 1, Faults: 3})
		next := m.Next
		m.Next = func(s specs.LedgerState, yield func(specs.LedgerAct, specs.LedgerState)) {
			next(s, func(a specs.LedgerAct, to specs.LedgerState) {
				c.bend(s, a, &to)
				yield(a, to)
			})
		}
		broken := false
		// some of these would go on for ever: what is broken within the limit is broken
		g, err := model.Search(t.Context(), m, model.Options{MaxStates: 50_000})
		if g == nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, v := range g.Verdicts() {
			broken = broken || v.Name == c.broken && !v.OK
		}
		if !broken {
			t.Errorf("%s, and %q holds", c.name, c.broken)
		}
	}
}

type ledgerNext = func(s specs.LedgerState, yield func(specs.LedgerAct, specs.LedgerState))

// without leaves steps out.
func without(next ledgerNext, gone lost) ledgerNext {
	return func(s specs.LedgerState, yield func(specs.LedgerAct, specs.LedgerState)) {
		next(s, func(a specs.LedgerAct, to specs.LedgerState) {
			if !gone(s, a, to) {
				yield(a, to)
			}
		})
	}
}

func searched(t *testing.T, m model.Model[specs.LedgerState, specs.LedgerAct]) *model.Graph[specs.LedgerState, specs.LedgerAct] {
	t.Helper()
	g, err := model.Search(t.Context(), m, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}
