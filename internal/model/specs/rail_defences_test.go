package specs_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

// widest are the bounds within which the removal of a defence is judged.
const widestWorkers, widestFaults, widestDemands = 3, 3, 2

// damage is what the removal of one defence does.
type damage struct {
	specs.Switch
	broken []broken
	lost   []string // what can no longer happen
}

// broken is a property that does not survive, at the smallest bounds that show it:
// fewest faults, then workers, then demands.
type broken struct {
	workers, faults, demands int
	model.Verdict
}

func (b broken) bounds() string {
	return fmt.Sprintf("%s, %s, %s", several(b.workers, "worker"), several(b.faults, "fault"), several(b.demands, "demand"))
}

func several(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Each defence taken away breaks what it is there for, and at least something.
func TestLedgerDefences(t *testing.T) {
	t.Parallel()
	entries := specs.List()
	entry := entries[slices.IndexFunc(entries, func(e specs.Entry) bool { return e.Name == "ledger" })]
	var all []damage
	for _, s := range entry.Switches {
		d := remove(t, s)
		if len(d.broken) == 0 {
			t.Errorf("without %s nothing breaks: it is not modelled, or not needed", s.Name)
		}
		golden(t, "ledger/without-"+s.Name+".txt", d.text())
		all = append(all, d)
	}
	document(t, "ledger figures", figuresTable(ledgerFigures))
	document(t, "ledger defences", defencesTable(all))
	document(t, "ledger traces", tracesList(all))
}

// remove judges the ledger without one defence.
func remove(t *testing.T, s specs.Switch) damage {
	t.Helper()
	d := damage{Switch: s}
	for i, v := range judge(t, s.Name, widestWorkers, widestFaults, widestDemands) {
		switch {
		case v.OK:
		case v.Kind == model.Reachable:
			d.lost = append(d.lost, v.Name)
		default:
			d.broken = append(d.broken, smallest(t, s.Name, i))
		}
	}
	return d
}

// smallest finds the first bounds at which the property of that place is broken.
func smallest(t *testing.T, defence string, property int) broken {
	t.Helper()
	for faults := range widestFaults + 1 {
		for workers := 1; workers <= widestWorkers; workers++ {
			for demands := 1; demands <= widestDemands; demands++ {
				if v := judge(t, defence, workers, faults, demands)[property]; !v.OK {
					return broken{workers, faults, demands, v}
				}
			}
		}
	}
	t.Fatalf("without %s: property %d is broken, and then it is not", defence, property)
	return broken{}
}

func judge(t *testing.T, without string, workers, faults, demands int) []model.Verdict {
	t.Helper()
	o := specs.Options{Workers: workers, Faults: faults, Demands: demands, Without: []string{without}}
	return check(t, find(t, "ledger", o)).Properties
}

// text is the golden file of one removal.
func (d damage) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "without %s (%s)\n", d.Name, d.About)
	for _, v := range d.broken {
		fmt.Fprintf(&b, "\n%s %q: %s (%s)\n", v.Kind, v.Name, several(v.BadStates, "state"), v.bounds())
		for _, step := range v.Trace {
			fmt.Fprintf(&b, "  %s\n", step)
		}
	}
	if len(d.lost) > 0 {
		fmt.Fprintf(&b, "\nno longer possible: %s\n", strings.Join(d.lost, "; "))
	}
	return b.String()
}

func figuresTable(rows [][7]int) string {
	b := strings.Builder{}
	b.WriteString("| workers | faults | demands | attempts | states | transitions | depth |\n|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %d | %d | %d |\n", r[0], r[1], r[2], r[3], r[4], r[5], r[6])
	}
	return b.String()
}

func defencesTable(all []damage) string {
	var b strings.Builder
	b.WriteString("| without | what breaks | smallest bounds | steps | states |\n|---|---|---|---|---|\n")
	for _, d := range all {
		name := d.Name
		for _, v := range d.broken {
			fmt.Fprintf(&b, "| %s | %s | %s | %d | %d |\n", name, v.Name, v.bounds(), len(v.Trace), v.BadStates)
			name = ""
		}
		if len(d.lost) > 0 {
			fmt.Fprintf(&b, "| %s | no longer possible: %s | | | |\n", name, strings.Join(d.lost, "; "))
		}
	}
	return b.String()
}

// tracesList has each trace once, under the properties that it breaks.
func tracesList(all []damage) string {
	var b strings.Builder
	for _, d := range all {
		fmt.Fprintf(&b, "Without %s (%s):\n\n", d.Name, d.About)
		for rest := d.broken; len(rest) > 0; {
			same := func(v broken) bool { return slices.Equal(v.Trace, rest[0].Trace) }
			var names []string
			for _, v := range rest {
				if same(v) {
					names = append(names, v.Name)
				}
			}
			fmt.Fprintf(&b, "- %s:\n", strings.Join(names, "; "))
			for i, step := range rest[0].Trace {
				fmt.Fprintf(&b, "  %d. %s\n", i+1, step)
			}
			rest = slices.DeleteFunc(slices.Clone(rest), same)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// document compares a part of docs/MODEL.md, or writes it.
func document(t *testing.T, part, want string) {
	t.Helper()
	const path = "../../../docs/MODEL.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+part+": written by go test ./internal/model/specs -rewrite -->\n", "<!-- "+part+": end -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no part between %q and %q", path, begin, end)
	}
	if *rewrite && got != want {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s, %s (-want +got; go test ./internal/model/specs -rewrite writes it):\n%s", path, part, d)
	}
}
