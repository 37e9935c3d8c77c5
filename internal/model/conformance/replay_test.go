package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"briefrail/internal/jobs"
	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

// replay does on the real code what a worse design would do. Beside it goes the
// model with every defence on, which says what must come of it; the state of the
// tables is compared after each step.
type replay struct {
	t     *testing.T
	db    *database
	m     *matter
	model model.Model[specs.LedgerState, specs.LedgerAct]
	state specs.LedgerState
}

func newReplay(t *testing.T, attempts int) *replay {
	t.Helper()
	m, err := specs.Ledger(specs.Options{Workers: 2, Faults: 6, Demands: 6, Attempts: attempts})
	if err != nil {
		t.Fatal(err)
	}
	r := &replay{t: t, db: newDatabase(t, attempts), model: m, state: m.Initial}
	if r.m, err = r.db.newMatter(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// offered returns where the action leads, false where it is not offered.
func (r *replay) offered(a specs.LedgerAct) (to specs.LedgerState, ok bool) {
	r.model.Next(r.state, func(b specs.LedgerAct, s specs.LedgerState) {
		if a == b {
			to, ok = s, true
		}
	})
	return to, ok
}

// take takes a step that the model offers.
func (r *replay) take(a specs.LedgerAct, to specs.LedgerState) string {
	r.t.Helper()
	label := r.model.Label(r.state, a, to)
	if err := r.m.step(r.t.Context(), a, r.state, to); err != nil {
		r.t.Fatalf("%s: %v", label, err)
	}
	r.state = to
	return label
}

// refusals is how a step ends that is no longer its worker's to take.
var refusals = map[specs.LedgerKind]specs.LedgerKind{
	specs.LedgerLands:    specs.LedgerLandFenced,
	specs.LedgerInserts:  specs.LedgerLandFenced,
	specs.LedgerRenews:   specs.LedgerRenewFenced,
	specs.LedgerFails:    specs.LedgerFailFenced,
	specs.LedgerReleases: specs.LedgerReleaseFenced,
}

// attempt takes the step, or is refused; what says in words what came of it, and
// bounced that it was not what was tried.
func (r *replay) attempt(a specs.LedgerAct) (what string, bounced bool) {
	r.t.Helper()
	if to, ok := r.offered(a); ok {
		return r.take(a, to), false
	}
	refused := specs.LedgerAct{Kind: refusals[a.Kind], Who: a.Who}
	if to, ok := r.offered(refused); ok && refused.Kind != 0 {
		return r.take(refused, to), true
	}
	what, err := r.inVain(r.t.Context(), a)
	if err != nil {
		r.t.Fatalf("%s, which the model does not offer: %v", a.Kind, err)
	}
	return what, true
}

// inVain tries what the model does not offer: nothing may come of it.
func (r *replay) inVain(ctx context.Context, a specs.LedgerAct) (string, error) {
	switch w := r.m.workers[a.Who]; a.Kind {
	case specs.LedgerClaims:
		return "nothing can be claimed", r.empty(r.m.claimNow(ctx, int(a.Who)))
	case specs.LedgerSweeps:
		return "there is nothing to sweep", r.empty(r.m.sweepNow(ctx))
	case specs.LedgerPauses:
		return "there is no lease that could run out", r.same(ctx, func() error {
			_, err := r.db.work.Conn.Exec(ctx, expireSQL, r.m.key.Firm, r.m.key.Matter)
			return err
		})
	case specs.LedgerLapses: // renewed in time, it does not run out
		return "the lease is renewed", r.same(ctx, func() error {
			got, err := jobs.Renew(ctx, r.db.work, []jobs.Claim{w.claim.Claim}, lease)
			if err == nil && got[0] != jobs.Renewed {
				err = fmt.Errorf("answered %d", got[0])
			}
			return err
		})
	case specs.LedgerBuilds, specs.LedgerLands:
		if w == nil {
			return "there is no claim to build for", nil
		}
	}
	return "", errors.New("nor does the replay know how to try")
}

// empty wants a claim or a sweep that got nothing.
func (r *replay) empty(got any, err error) error {
	if err == nil && fmt.Sprint(got) != "[]" {
		err = fmt.Errorf("got %v", got)
	}
	return err
}

// same wants the state not to change.
func (r *replay) same(ctx context.Context, do func() error) error {
	if err := do(); err != nil {
		return err
	}
	var err error
	if r.m.now, err = r.m.read(ctx); err != nil {
		return err
	}
	if got, err := r.m.state(r.state); err != nil || got != r.state {
		return errors.Join(fmt.Errorf("the tables say %+v", got), err)
	}
	return r.m.askForMore(ctx, r.state)
}

// recover goes a shortest way without faults to a frame that contains every demand, or
// to a parked job and its alarm.
func (r *replay) recover() {
	r.t.Helper()
	type way struct {
		state specs.LedgerState
		acts  []specs.LedgerAct
	}
	seen, queue := map[specs.LedgerState]bool{r.state: true}, []way{{state: r.state}}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		if s := w.state; s.Row.Status == specs.StatusParked || s.Row.Status == specs.StatusIdle && s.Covered == s.Asked {
			for _, a := range w.acts {
				to, _ := r.offered(a)
				r.take(a, to)
			}
			r.db.CheckLedger(r.t)
			return
		}
		r.model.Next(w.state, func(a specs.LedgerAct, to specs.LedgerState) {
			if to.Faults == w.state.Faults && to.Demands == w.state.Demands && !seen[to] {
				seen[to] = true
				queue = append(queue, way{to, append(slices.Clone(w.acts), a)})
			}
		})
	}
	r.t.Fatalf("no way leads from here to a current Brief: %+v", r.state)
}

// golden is one broken property in a file of the models' traces.
type golden struct {
	property string
	bounds   string // as the file has them, "" where it has none
	trace    []string
}

var brokenProperty = regexp.MustCompile(`^(?:never|recoverable) "([^"]+)": (?:BROKEN in )?\d+ states?(?: \((.+)\))?$`)

// goldens reads the broken properties of a file that the models' own tests pin.
func goldens(t *testing.T, file string) []golden {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "specs", "testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	open := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		step, isStep := strings.CutPrefix(line, "  ")
		switch found := brokenProperty.FindStringSubmatch(line); {
		case found != nil:
			all, open = append(all, golden{property: found[1], bounds: found[2]}), true
		case isStep && open:
			last := &all[len(all)-1]
			last.trace = append(last.trace, step)
		default:
			open = false
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s: no broken property", file)
	}
	return all
}

// counterexample is the trace of one property.
func counterexample(t *testing.T, file, property string) []string {
	t.Helper()
	all := goldens(t, file)
	i := slices.IndexFunc(all, func(g golden) bool { return g.property == property })
	if i < 0 {
		t.Fatalf("%s: %q is not broken", file, property)
	}
	return all[i].trace
}
