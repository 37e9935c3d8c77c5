package specs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"briefrail/internal/model"
	"briefrail/internal/model/modeldoc"
	"briefrail/internal/model/specs"
)

// study takes the defences of a model away, one at a time. What breaks is looked for
// at the widest bounds, and then at all smaller ones.
type study struct {
	model  string
	widest func(defence string) []bounds
	judged map[string][]model.Verdict // by title
}

// bounds may leave the attempts out: the model's own.
type bounds struct{ workers, faults, demands, attempts int }

func (b bounds) String() string {
	words := several(b.workers, "worker") + ", " + several(b.faults, "fault") + ", " + several(b.demands, "demand")
	if b.attempts > 0 {
		words += ", " + several(b.attempts, "attempt")
	}
	return words
}

// everywhere are the same widest bounds, whatever is taken away.
func everywhere(widest ...bounds) func(string) []bounds {
	return func(string) []bounds { return widest }
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

		"authority lock-a": "an admitted write is cut off within its grace", "authority second-look": "an admitted write is cut off within its grace",
		"authority commit-tail": "a late write", "authority lock-b": "a late write", "authority read-committed": "a late write",
		"authority role": "two open sides", "authority epoch": "a late write",
		"authority position-under-lock": "an accepted write beyond the final sequence", "authority state-check": "a verb takes effect out of its turn",
		"authority change-id": "a change is carried out twice", "authority report": "the side in charge lacks an accepted write",
		"authority own-report": "the side in charge lacks an accepted write", "authority unknown-blocks": "every intent is answered",
		"authority window": "authority goes where the way was given up", "authority deadline": "one side may write",
		"authority receipts": "an intent is executed twice", "authority digest": "an answer for other content",
	}
}

// Each defence taken away breaks what it is there for.
func TestDefences(t *testing.T) {
	t.Parallel()
	for name, widest := range map[string]func(string) []bounds{
		"ledger":    everywhere(bounds{3, 3, 2, 0}),
		"relay":     everywhere(bounds{2, 1, 2, 0}, bounds{2, 2, 1, 0}),
		"authority": authorityBounds,
	} {
		st := study{name, widest, map[string][]model.Verdict{}}
		var all []damage
		for _, s := range entry(st.model).Switches {
			d := st.remove(t, s)
			if len(d.broken) == 0 {
				t.Errorf("%s without %s: nothing breaks: it is not modelled, or not needed", st.model, s.Name)
			}
			if p, named := purposes()[st.model+" "+s.Name]; (st.model != "relay") != named {
				t.Errorf("%s %s: what is it there for? name it in purposes", st.model, s.Name)
			} else if named && !slices.ContainsFunc(d.broken, func(b broken) bool { return b.Name == p }) {
				t.Errorf("%s without %s: %q holds, which it is there for", st.model, s.Name, p)
			}
			golden(t, st.model+"/without-"+s.Name+".txt", d.text())
			all = append(all, d)
		}
		document(t, st.model+" defences", defencesTable("without", all))
		if st.model == "authority" {
			st.variants(t)
			all = only(all, func(defence string) string { return purposes()["authority "+defence] })
		}
		document(t, st.model+" traces", tracesList("Without ", all))
	}
}

func entry(name string) specs.Entry {
	all := specs.List()
	return all[slices.IndexFunc(all, func(e specs.Entry) bool { return e.Name == name })]
}

// remove judges the model without one defence, or in one of its versions.
func (st study) remove(t *testing.T, s specs.Switch) damage {
	t.Helper()
	d := damage{Switch: s}
	var names []string
	breaks, lost := map[string]bool{}, map[string]bool{}
	for _, b := range st.widest(s.Name) {
		for _, v := range st.judge(t, s.Name, b) {
			known := slices.Contains(names, v.Name)
			if !known {
				names = append(names, v.Name)
			}
			reach := v.Kind == model.Reachable
			breaks[v.Name] = breaks[v.Name] || !reach && !v.OK
			lost[v.Name] = reach && !v.OK && (!known || lost[v.Name])
		}
	}
	for _, name := range names {
		switch {
		case lost[name]:
			d.lost = append(d.lost, name)
		case breaks[name]:
			d.broken = append(d.broken, st.smallest(t, s.Name, name))
		}
	}
	return d
}

// smallest finds the first bounds at which a property is broken.
func (st study) smallest(t *testing.T, defence, property string) broken {
	t.Helper()
	widest := st.widest(defence)
	most := widest[0]
	for _, b := range widest {
		most = bounds{max(most.workers, b.workers), max(most.faults, b.faults), max(most.demands, b.demands), max(most.attempts, b.attempts)}
	}
	for faults := range most.faults + 1 {
		for workers := 1; workers <= most.workers; workers++ {
			for demands := 1; demands <= most.demands; demands++ {
				for attempts := min(1, most.attempts); attempts <= most.attempts; attempts++ {
					b := bounds{workers, faults, demands, attempts}
					for _, v := range st.judge(t, defence, b) {
						if v.Name == property && !v.OK {
							return broken{b, v}
						}
					}
				}
			}
		}
	}
	t.Fatalf("%s without %s: %q is broken, and then it is not", st.model, defence, property)
	return broken{}
}

// judge checks a variant, or remembers what it was.
func (st study) judge(t *testing.T, defence string, b bounds) []model.Verdict {
	t.Helper()
	o := specs.Options{Workers: b.workers, Faults: b.faults, Demands: b.demands, Attempts: b.attempts}
	if slices.Contains(entry(st.model).Versions, defence) {
		o.Version = defence
	} else {
		o.Without = []string{defence}
	}
	c := find(t, st.model, o)
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
	authority := table("writers", "faults", "intents", "changes", "states", "transitions", "depth")
	for _, row := range authorityFigures {
		authority += figures(row[:])
	}
	document(t, "authority figures", authority)
	deep := table("writers", "faults", "intents", "changes", "states", "transitions", "depth")
	for _, row := range deepFigures {
		deep += figures(row[:])
	}
	document(t, "authority deep figures", deep)
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

func defencesTable(head string, all []damage) string {
	var b strings.Builder
	b.WriteString(table(head, "what breaks", "smallest bounds", "steps", "states"))
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
func tracesList(head string, all []damage) string {
	var b strings.Builder
	for _, d := range all {
		fmt.Fprintf(&b, "%s%s (%s):\n\n", head, d.Name, d.About)
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

// doc is where the tables and traces stand.
var doc = &modeldoc.Document{Path: "../../../docs/MODEL.md", Writer: "./internal/model/specs"}

// document compares a part of docs/MODEL.md, or writes it.
func document(t *testing.T, part, want string) {
	t.Helper()
	doc.Holds(t, part, want, *rewrite)
}
