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

// study takes the defences of a model away, one at a time. What breaks is looked for
// at the widest bounds, and then at all smaller ones.
type study struct {
	model  string
	widest []bounds
	judged map[string][]model.Verdict // by title
}

type bounds struct{ workers, faults, demands int }

func (b bounds) String() string {
	return several(b.workers, "worker") + ", " + several(b.faults, "fault") + ", " + several(b.demands, "demand")
}

// damage is what the removal of one defence does.
type damage struct {
	specs.Switch
	broken []broken
	lost   []string // what can no longer happen
}

// broken is a property that does not survive, at the smallest bounds that show it:
// fewest faults, then workers, then demands.
type broken struct {
	bounds
	model.Verdict
}

func several(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// purposes is the property that each defence is there for. Others may fall with it: a
// landing that checks no token usurps, and so misstates what is owed as well.
func purposes() map[string]string {
	return map[string]string{
		"ledger lease": "current or parked", "ledger sweep": "current or parked", "ledger token": "landed by another's token",
		"ledger run_id": "landed by another's token", "ledger renewal": "parked though nothing failed",
		"ledger rebuild-flag": "demand is forgotten", "ledger atomic-demand": "demand is forgotten",
		"ledger attempt-cap": "more attempts than the cap allows", "ledger fenced-insert": "a frame of a stale claim",
	}
}

// Each defence taken away breaks what it is there for.
func TestDefences(t *testing.T) {
	t.Parallel()
	for name, widest := range map[string][]bounds{"ledger": {{3, 3, 2}}, "relay": {{2, 1, 2}, {2, 2, 1}}} {
		st := study{name, widest, map[string][]model.Verdict{}}
		entries := specs.List()
		entry := entries[slices.IndexFunc(entries, func(e specs.Entry) bool { return e.Name == st.model })]
		var all []damage
		for _, s := range entry.Switches {
			d := st.remove(t, s)
			if len(d.broken) == 0 {
				t.Errorf("%s without %s: nothing breaks: it is not modelled, or not needed", st.model, s.Name)
			}
			if p, named := purposes()[st.model+" "+s.Name]; (st.model == "ledger") != named {
				t.Errorf("%s %s: what is it there for? name it in purposes", st.model, s.Name)
			} else if named && !slices.ContainsFunc(d.broken, func(b broken) bool { return b.Name == p }) {
				t.Errorf("%s without %s: %q holds, which it is there for", st.model, s.Name, p)
			}
			golden(t, st.model+"/without-"+s.Name+".txt", d.text())
			all = append(all, d)
		}
		document(t, st.model+" defences", defencesTable(all))
		document(t, st.model+" traces", tracesList(all))
	}
}

// remove judges the model without one defence.
func (st study) remove(t *testing.T, s specs.Switch) damage {
	t.Helper()
	d := damage{Switch: s}
	breaks, lost := map[int]bool{}, map[int]bool{}
	var verdicts []model.Verdict
	for i, b := range st.widest {
		verdicts = st.judge(t, s.Name, b)
		for place, v := range verdicts {
			breaks[place] = breaks[place] || !v.OK
			lost[place] = !v.OK && (i == 0 || lost[place])
		}
	}
	for place, v := range verdicts {
		switch {
		case v.Kind == model.Reachable && lost[place]:
			d.lost = append(d.lost, v.Name)
		case v.Kind != model.Reachable && breaks[place]:
			d.broken = append(d.broken, st.smallest(t, s.Name, place))
		}
	}
	return d
}

// smallest finds the first bounds at which the property of that place is broken.
func (st study) smallest(t *testing.T, defence string, place int) broken {
	t.Helper()
	most := st.widest[0]
	for _, b := range st.widest {
		most = bounds{max(most.workers, b.workers), max(most.faults, b.faults), max(most.demands, b.demands)}
	}
	for faults := range most.faults + 1 {
		for workers := 1; workers <= most.workers; workers++ {
			for demands := 1; demands <= most.demands; demands++ {
				b := bounds{workers, faults, demands}
				if v := st.judge(t, defence, b)[place]; !v.OK {
					return broken{b, v}
				}
			}
		}
	}
	t.Fatalf("%s without %s: property %d is broken, and then it is not", st.model, defence, place)
	return broken{}
}

// judge checks a variant, or remembers what it was.
func (st study) judge(t *testing.T, without string, b bounds) []model.Verdict {
	t.Helper()
	c := find(t, st.model, specs.Options{Workers: b.workers, Faults: b.faults, Demands: b.demands, Without: []string{without}})
	if st.judged[c.Title()] == nil {
		st.judged[c.Title()] = check(t, c).Properties
	}
	return st.judged[c.Title()]
}

// text is the golden file of one removal.
func (d damage) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "without %s (%s)\n", d.Name, d.About)
	for _, v := range d.broken {
		fmt.Fprintf(&b, "\n%s %q: %s (%s)\n", v.Kind, v.Name, several(v.BadStates, "state"), v.bounds)
		for _, step := range v.Trace {
			fmt.Fprintf(&b, "  %s\n", step)
		}
	}
	if len(d.lost) > 0 {
		fmt.Fprintf(&b, "\nno longer possible: %s\n", strings.Join(d.lost, "; "))
	}
	return b.String()
}

// The figures that the tests pin are those of the document. Not parallel: the parts of
// one file are written one after the other.
func TestFiguresAreInTheDocument(t *testing.T) {
	ledger := table("workers", "faults", "demands", "attempts", "states", "transitions", "depth")
	for _, row := range ledgerFigures {
		ledger += figures(row[:])
	}
	document(t, "ledger figures", ledger)
	relay := table("relays", "faults", "facts", "states", "transitions", "depth")
	for _, row := range relayFigures {
		relay += figures(row[:])
	}
	document(t, "relay figures", relay)
}

func table(heads ...string) string {
	return "| " + strings.Join(heads, " | ") + " |\n" + strings.Repeat("|---", len(heads)) + "|\n"
}

func figures(row []int) string {
	line := "|"
	for _, n := range row {
		line += fmt.Sprintf(" %d |", n)
	}
	return line + "\n"
}

func defencesTable(all []damage) string {
	var b strings.Builder
	b.WriteString(table("without", "what breaks", "smallest bounds", "steps", "states"))
	for _, d := range all {
		name := d.Name
		for _, v := range d.broken {
			fmt.Fprintf(&b, "| %s | %s | %s | %d | %d |\n", name, v.Name, v.bounds, len(v.Trace), v.BadStates)
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
