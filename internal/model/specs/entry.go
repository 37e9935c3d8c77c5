package specs

import (
	"fmt"
	"slices"
	"strings"
)

// Entry is a model as it can be asked for.
type Entry struct {
	Name  string `json:"name"`
	About string `json:"about"`

	// The bounds that may be given: workers, the budget of faults, demands made, and
	// the attempts after which a job is parked. Most 0 says that the model has no such
	// thing.
	Workers  Bound `json:"workers"`
	Faults   Bound `json:"faults"`
	Demands  Bound `json:"demands"`
	Attempts Bound `json:"attempts"`

	// Switches are the defences, all on unless asked otherwise.
	Switches []Switch `json:"switches,omitempty"`

	// Versions and Gates are alternatives of the whole design; the last is the
	// default.
	Versions []string `json:"versions,omitempty"`
	Gates    []string `json:"gates,omitempty"`

	build func(s settings) Checked
}

// Bound is the default of a number and the most that the model's arrays hold.
type Bound struct {
	Default int `json:"default"`
	Most    int `json:"most"`
}

// Switch is a defence that can be taken away.
type Switch struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// Default stands for the model's own number of faults in Options.
const Default = -1

// None as the only word of With takes every switch away.
const None = "none"

// Options choose among the variants of a model.
type Options struct {
	Workers  int // 0 is the model's default
	Faults   int // the budget; Default is the model's default, 0 none at all
	Demands  int // 0 is the model's default
	Attempts int // before a job is parked; 0 is the model's default

	// With names the only switches that are on, or None; Without those that are
	// off. One of the two may be given.
	With, Without []string

	Version, Gate string // empty is the model's default
}

// settings are Options after the check: every field has its final value.
type settings struct {
	entry    Entry
	workers  int
	faults   int
	demands  int
	attempts int
	on       []string // switches, in the entry's order
	version  string
	gate     string
}

// has reports whether a switch is on.
func (s settings) has(name string) bool { return slices.Contains(s.on, name) }

// title says which variant this is.
func (s settings) title() string {
	parts := []string{s.entry.Name}
	if s.entry.Workers.Most > 0 {
		parts = append(parts, counted(s.workers, "worker"))
	}
	if s.entry.Faults.Most > 0 {
		parts = append(parts, counted(s.faults, "fault"))
	}
	if s.entry.Demands.Most > 0 {
		parts = append(parts, counted(s.demands, "demand"))
	}
	if s.entry.Attempts.Most > 0 {
		parts = append(parts, counted(s.attempts, "attempt"))
	}
	if len(s.entry.Switches) > 0 {
		parts = append(parts, s.defences())
	}
	for _, word := range []string{s.version, s.gate} {
		if word != "" {
			parts = append(parts, word)
		}
	}
	return strings.Join(parts, ", ")
}

// few is how many switches are worth naming when they are on.
const few = 4

// defences names the switches that are on, or where they are many those that are
// off.
func (s settings) defences() string {
	var off []string
	for _, w := range s.entry.Switches {
		if !s.has(w.Name) {
			off = append(off, w.Name)
		}
	}
	switch {
	case len(s.on) == 0:
		return "no defence"
	case len(s.on) <= few:
		return "with " + strings.Join(s.on, "+")
	case len(off) == 0:
		return "every defence"
	default:
		return "without " + strings.Join(off, "+")
	}
}

// counted writes a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// List returns every model, the published ones first.
func List() []Entry {
	return []Entry{routerEntry(), jobEntry(), batchEntry(), ledgerEntry(), relayEntry(), authorityEntry()}
}

// Find makes the variant of a model that the options choose. Its errors name what
// does not exist and what does.
func Find(name string, o Options) (Checked, error) {
	var names []string
	for _, e := range List() {
		if e.Name == name {
			s, err := e.settle(o)
			if err != nil {
				return nil, err
			}
			return e.build(s), nil
		}
		names = append(names, e.Name)
	}
	return nil, fmt.Errorf("no model %q: there are %s", name, strings.Join(names, ", "))
}

// settle checks the options against the entry.
func (e Entry) settle(o Options) (settings, error) {
	s := settings{entry: e}
	if o.Faults == Default {
		o.Faults = e.Faults.Default
	}
	var err error
	if s.faults, err = e.within("faults", o.Faults, 0, e.Faults.Most); err != nil {
		return s, err
	}
	for _, n := range []struct {
		what  string
		given int
		bound Bound
		to    *int
	}{
		{"workers", o.Workers, e.Workers, &s.workers},
		{"demands", o.Demands, e.Demands, &s.demands},
		{"attempts", o.Attempts, e.Attempts, &s.attempts},
	} {
		if n.given == 0 {
			n.given = n.bound.Default
		}
		if *n.to, err = e.within(n.what, n.given, min(1, n.bound.Most), n.bound.Most); err != nil {
			return s, err
		}
	}
	if s.on, err = e.switches(o); err != nil {
		return s, err
	}
	if s.version, err = e.choose("version", o.Version, e.Versions); err != nil {
		return s, err
	}
	s.gate, err = e.choose("gate", o.Gate, e.Gates)
	return s, err
}

// within checks one bound.
func (e Entry) within(what string, n, least, most int) (int, error) {
	switch {
	case n >= least && n <= most:
		return n, nil
	case most == 0:
		return 0, fmt.Errorf("model %s has no %s: leave them out", e.Name, what)
	default:
		return 0, fmt.Errorf("model %s: %d %s: give %d to %d", e.Name, n, what, least, most)
	}
}

// switches returns the names that are on, in the entry's order.
func (e Entry) switches(o Options) ([]string, error) {
	var all []string
	for _, s := range e.Switches {
		all = append(all, s.Name)
	}
	named := slices.Concat(o.With, o.Without)
	if len(o.With) > 0 && len(o.Without) > 0 {
		return nil, fmt.Errorf("model %s: both with and without: give the switches that are on, or those that are off", e.Name)
	}
	if slices.Equal(o.With, []string{None}) {
		return nil, nil
	}
	for _, name := range named {
		switch {
		case len(all) == 0:
			return nil, fmt.Errorf("model %s has no switches, so none called %q", e.Name, name)
		case !slices.Contains(all, name):
			return nil, fmt.Errorf("model %s has no switch %q: there are %s", e.Name, name, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(all, func(name string) bool {
		if len(o.With) > 0 {
			return !slices.Contains(o.With, name)
		}
		return slices.Contains(o.Without, name)
	}), nil
}

// choose returns one of the alternatives, the last when none is named.
func (e Entry) choose(what, name string, among []string) (string, error) {
	switch {
	case len(among) == 0 && name != "":
		return "", fmt.Errorf("model %s has no %ss: leave %q out", e.Name, what, name)
	case len(among) == 0:
		return "", nil
	case name == "":
		return among[len(among)-1], nil
	case !slices.Contains(among, name):
		return "", fmt.Errorf("model %s has no %s %q: there are %s", e.Name, what, name, strings.Join(among, ", "))
	}
	return name, nil
}
