package specs_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

// authorityStep is what a crippled model looks at.
type authorityStep struct {
	from specs.AuthorityState
	act  specs.AuthorityAct
	to   specs.AuthorityState
}

// authorityCripples are steps that never happen.
func authorityCripples() []struct {
	never string
	lost  func(authorityStep) bool
} {
	kinds := func(kinds ...specs.AuthorityKind) func(authorityStep) bool {
		return func(s authorityStep) bool { return slices.Contains(kinds, s.act.Kind) }
	}
	commits := kinds(specs.AuthorityCommits)
	return []struct {
		never string
		lost  func(authorityStep) bool
	}{
		{"a plan", kinds(specs.AuthorityPlans)},
		{"a second plan", func(s authorityStep) bool { return s.act.Kind == specs.AuthorityPlans && s.from.Change.ID > 0 }},
		{"a change taken up", kinds(specs.AuthorityTakesUp)},
		{"an advance", kinds(specs.AuthorityAdvances)},
		{"an advance to the old side", func(s authorityStep) bool {
			return s.act.Kind == specs.AuthorityAdvances && s.to.Fence.Writer == specs.SideOld
		}},
		{"an abort", kinds(specs.AuthorityReopens, specs.AuthorityAborts)},
		{"an end of a closing", kinds(specs.AuthorityReopens, specs.AuthorityAborts, specs.AuthorityAdvances)},
		{"a commit", commits},
		{"a commit while closing", func(s authorityStep) bool { return commits(s) && s.from.Fence.State == specs.FenceClosing }},
		{"a commit of the new side", func(s authorityStep) bool { return commits(s) && s.act.Who%2 == 1 }},
		{"a commit after an abort", func(s authorityStep) bool { return commits(s) && s.from.Change.Phase == specs.PhaseAborted }},
		{"a refused commit", kinds(specs.AuthorityRefused)},
		{"a verb that loses", kinds(specs.AuthorityLoses)},
		{"a verb that repeats", kinds(specs.AuthorityRepeats)},
		{"a dead controller", kinds(specs.AuthorityDies)},
		{"a report that blocks", kinds(specs.AuthorityBlocks)},
		{"an answer from a receipt", kinds(specs.AuthorityAnswers)},
		{"an answer by the new side", func(s authorityStep) bool { return s.act.Kind == specs.AuthorityAnswers && s.act.Who%2 == 1 }},
		{"a transaction that is lost", kinds(specs.AuthorityFails)},
		{"a retirement", kinds(specs.AuthorityRetires)},
	}
}

// What a step makes possible is missed where the step never happens: nothing passes
// because the model can do nothing, and each property of that kind is missed by one
// of them.
func TestCrippledAuthority(t *testing.T) {
	t.Parallel()
	missed := map[string]bool{}
	var kept []string
	var b strings.Builder
	for _, c := range authorityCripples() {
		fmt.Fprintf(&b, "never %s\n", c.never)
		broken := map[string]model.Verdict{}
		for _, o := range []specs.Options{{Attempts: 2}, {Faults: 1, Attempts: 1}} {
			for name, v := range bent(t, o, crippled(c.lost)) {
				if v.Kind != model.Never {
					kept = append(kept, name)
				}
				if !v.OK {
					broken[name] = v
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(broken)) {
			missed[name] = true
			fmt.Fprintf(&b, "  %s %q, %d\n", broken[name].Kind, name, broken[name].BadStates)
		}
	}
	golden(t, "authority/crippled.txt", b.String())
	slices.Sort(kept)
	for _, name := range slices.Compact(kept) {
		if !missed[name] {
			t.Errorf("%q holds whatever is taken away: it says nothing", name)
		}
	}
}

// crippled leaves steps out.
func crippled(lost func(authorityStep) bool) func(authorityNext) authorityNext {
	return func(next authorityNext) authorityNext {
		return func(s specs.AuthorityState, yield func(specs.AuthorityAct, specs.AuthorityState)) {
			next(s, func(a specs.AuthorityAct, to specs.AuthorityState) {
				if !lost(authorityStep{s, a, to}) {
					yield(a, to)
				}
			})
		}
	}
}

// Steps that do the wrong thing: each is seen by the property that it concerns, those
// among them that no missing defence breaks.
func TestBentAuthority(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, broken string
		bend         func(a specs.AuthorityAct, to *specs.AuthorityState)
	}{
		{"an abort takes a new epoch", "epochs and crossings differ", func(a specs.AuthorityAct, to *specs.AuthorityState) {
			if a.Kind == specs.AuthorityReopens {
				to.Fence.Epoch++
			}
		}},
		{"an advance keeps the epoch", "epochs and crossings differ", func(a specs.AuthorityAct, to *specs.AuthorityState) {
			if a.Kind == specs.AuthorityAdvances {
				to.Fence.Epoch--
			}
		}},
		{"an abort leaves the scope closed", "one side may write", func(a specs.AuthorityAct, to *specs.AuthorityState) {
			if a.Kind == specs.AuthorityReopens {
				to.Fence.State = specs.FenceClosing
			}
		}},
		{"an abort gives authority to the other side", "the side in charge lacks an accepted write", func(a specs.AuthorityAct, to *specs.AuthorityState) {
			if a.Kind == specs.AuthorityReopens {
				to.Fence.Writer = specs.SideNew
			}
		}},
		{"a seal forgets the position", "the side in charge lacks an accepted write", func(a specs.AuthorityAct, to *specs.AuthorityState) {
			if a.Kind == specs.AuthoritySeals {
				to.Fence.Final = 0
			}
		}},
	} {
		broken := bent(t, specs.Options{Attempts: 1}, func(next authorityNext) authorityNext {
			return func(s specs.AuthorityState, yield func(specs.AuthorityAct, specs.AuthorityState)) {
				next(s, func(a specs.AuthorityAct, to specs.AuthorityState) {
					c.bend(a, &to)
					yield(a, to)
				})
			}
		})
		if v := broken[c.broken]; v.OK || v.Open {
			t.Errorf("%s, and %q holds", c.name, c.broken)
		}
	}
}
