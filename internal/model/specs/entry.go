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

	// Workers and Faults are the bounds that may be given; Most 0 says that the
	// model has no such thing.
	Workers Bound `json:"workers"`
	Faults  Bound `json:"faults"`

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
	Workers int // 0 is the model's default
	Faults  int // the budget; Default is the model's default, 0 none at all

	// With names the only switches that are on, or None; Without those that are
	// off. One of the two may be given.
	With, Without []string

	Version, Gate string // empty is the model's default
}

// settings are Options after the check: every field has its final value.
type settings struct {
	entry   Entry
	workers int
	faults  int
	on      []string // switches, in the entry's order
	version string
	gate    string
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
	switch {
	case len(s.entry.Switches) == 0:
	case len(s.on) == 0:
		parts = append(parts, "no defence")
	default:
		parts = append(parts, "with "+strings.Join(s.on, "+"))
	}
	for _, word := range []string{s.version, s.gate} {
		if word != "" {
			parts = append(parts, word)
		}
	}
	return strings.Join(parts, ", ")
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
	return []Entry{routerEntry(), jobEntry(), batchEntry()}
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
	if o.Workers == 0 {
		o.Workers = e.Workers.Default
	}
	if o.Faults == Default {
		o.Faults = e.Faults.Default
	}
	var err error
	s.workers, err = e.within("workers", o.Workers, min(1, e.Workers.Most), e.Workers.Most)
	if err != nil {
		return s, err
	}
	if s.faults, err = e.within("faults", o.Faults, 0, e.Faults.Most); err != nil {
		return s, err
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
