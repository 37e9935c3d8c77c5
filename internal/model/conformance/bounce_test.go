package conformance_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

// bounce is where a counterexample of a variant without a defence ends on the real
// code.
type bounce struct {
	without, property string
	step, of          int
	tried, instead    string
}

// The shortest counterexamples of the ledger without each of its defences, on the real
// code: each stops being possible at the step where the defence stands.
func TestCounterexamplesBounce(t *testing.T) {
	t.Parallel()
	entries := specs.List()
	ledger := entries[slices.IndexFunc(entries, func(e specs.Entry) bool { return e.Name == "ledger" })]
	all := make([][]bounce, len(ledger.Switches))
	t.Run("without", func(t *testing.T) {
		for i, s := range ledger.Switches {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				for _, g := range goldens(t, "ledger/without-"+s.Name+".txt") {
					all[i] = append(all[i], bounces(t, s.Name, g))
				}
			})
		}
	})
	if !t.Failed() {
		document(t, "counterexamples that bounce", bounceTable(slices.Concat(all...)))
	}
}

// bounces replays one counterexample up to the step that is not possible.
func bounces(t *testing.T, without string, g golden) bounce {
	t.Helper()
	variant, path := shortest(t, without, g)
	r := newReplay(t, attempts)
	b := bounce{without: without, property: g.property, of: len(path)}
	worse := variant.Initial
	for i, choice := range path {
		var act specs.LedgerAct
		was := worse
		act, worse = take(variant, worse, choice)
		what, refused, skipped := r.instead(act, i+1 == len(path))
		if skipped {
			continue
		}
		if refused || r.state.Row != worse.Row || r.state.Frames != worse.Frames {
			b.step, b.tried, b.instead = i+1, variant.Label(was, act, worse), what
			if b.instead == b.tried {
				b.instead += ", and no frame of it stays"
			}
			break
		}
	}
	for _, p := range variant.Properties {
		if p.Kind == model.Never && p.Name == g.property && p.At(r.state) {
			t.Errorf("%s, %s: it does not bounce: %+v", without, g.property, r.state)
		}
	}
	if b.step == 0 && without != "lease" && without != "sweep" { // these two are missed after the trace only
		t.Errorf("%s, %s: every step of %q was possible", without, g.property, g.trace)
	}
	r.recover()
	return b
}

// instead takes the step that this design has in place of the variant's: what is two
// steps there is one here, taken with the second.
func (r *replay) instead(a specs.LedgerAct, last bool) (what string, bounced, skipped bool) {
	r.t.Helper()
	switch a.Kind {
	case specs.LedgerDemandReads:
		return "", false, true
	case specs.LedgerDemandWrites:
		a = specs.LedgerAct{Kind: specs.LedgerDemand}
	case specs.LedgerInserts:
		if !last {
			return "", false, true
		}
	case specs.LedgerLapses:
		if _, ok := r.offered(a); !ok {
			what, err := r.inVain(r.t.Context(), a)
			if err != nil {
				r.t.Fatalf("%s: %v", a.Kind, err)
			}
			return what, true, false
		}
	}
	what, bounced = r.attempt(a)
	return what, bounced, false
}

// shortest finds the counterexample again by a search, and holds the file to it.
func shortest(t *testing.T, without string, g golden) (model.Model[specs.LedgerState, specs.LedgerAct], []int) {
	t.Helper()
	o := specs.Options{Without: []string{without}, Attempts: attempts}
	plain := strings.NewReplacer("workers", "worker", "faults", "fault", "demands", "demand").Replace(g.bounds)
	if _, err := fmt.Sscanf(plain, "%d worker, %d fault, %d demand", &o.Workers, &o.Faults, &o.Demands); err != nil {
		t.Fatalf("bounds %q: %v", g.bounds, err)
	}
	found := search(t, o)
	v, err := found.Judge(g.property)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(g.trace, v.Trace); d != "" {
		t.Fatalf("without %s, %s (-file +search):\n%s", without, g.property, d)
	}
	return found.Model(), v.Path
}

// take follows the step of that place.
func take(m model.Model[specs.LedgerState, specs.LedgerAct], s specs.LedgerState, place int) (act specs.LedgerAct, to specs.LedgerState) {
	n := 0
	m.Next(s, func(a specs.LedgerAct, next specs.LedgerState) {
		if n == place {
			act, to = a, next
		}
		n++
	})
	return act, to
}

func bounceTable(all []bounce) string {
	var b strings.Builder
	b.WriteString("| without | what would break | step | tried | here |\n|---|---|---|---|---|\n")
	for _, x := range all {
		if x.step == 0 {
			fmt.Fprintf(&b, "| %s | %s | after %d | nothing more | the lease runs out, the sweep hands the claim on, the next worker lands |\n", x.without, x.property, x.of)
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %d of %d | %s | %s |\n", x.without, x.property, x.step, x.of, x.tried, x.instead)
	}
	return b.String()
}
