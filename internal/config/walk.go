package config

import (
	"fmt"
	"strings"
)

// walker finds the settings of a file and refuses whatever else is in it. Keys
// are compared as written: viper folds their case, so that of Lease and lease in
// one file either could win.
type walker struct {
	path     string
	ps       *problems
	keys     []string
	sections map[string]bool
	found    map[string]layer
}

func newWalker(path string, settings []setting, ps *problems) *walker {
	w := &walker{path: path, ps: ps, sections: map[string]bool{"": true}, found: map[string]layer{}}
	for _, s := range settings {
		w.keys = append(w.keys, s.key)
		for i, c := range s.key {
			if c == '.' {
				w.sections[s.key[:i]] = true
			}
		}
	}
	return w
}

// walk visits the fields of a section; prefix ends in a dot except at the top.
func (w *walker) walk(prefix string, r raw) {
	if r.form == null {
		return // a file of comments only
	}
	if r.form != object {
		w.refuse("configuration file", r, "holds "+string(r.form)+" instead of settings", "write section: {setting: value}")
		return
	}
	for _, f := range r.fields {
		w.visit(prefix+f.name, f)
	}
}

func (w *walker) visit(key string, f field) {
	isSection := w.sections[key] && !strings.Contains(f.name, ".")
	switch {
	case strings.Contains(f.name, "."):
		w.refuse(key, f.value, "has a dot in its name", "nest it: "+strings.ReplaceAll(key, ".", ": {")+strings.Repeat("}", strings.Count(key, ".")))
	case isSection && f.value.form == object:
		w.walk(key+".", f.value)
	case isSection && f.value.form == null: // all its settings are commented out
	case isSection:
		w.refuse(key, f.value, "is a section and takes no value of its own", suggest(key, w.keys))
	case !w.knows(key):
		w.refuse(key, f.value, "is not a setting"+caseHint(key), orElse(suggest(key, w.keys), "remove it, or see the reference of settings"))
	case f.value.form == null:
		w.refuse(key, f.value, "has no value", "give it one or remove the line")
	default:
		w.keep(key, f.value)
	}
}

func caseHint(key string) string {
	if key != strings.ToLower(key) {
		return " (names are lower case)"
	}
	return ""
}

func (w *walker) keep(key string, r raw) {
	if first, ok := w.found[key]; ok {
		w.refuse(key, r, "is set twice", "keep one; the other is at "+first.origin)
		return
	}
	w.found[key] = layer{w.origin(r), r}
}

func (w *walker) knows(key string) bool {
	for _, k := range w.keys {
		if k == key {
			return true
		}
	}
	return false
}

func (w *walker) origin(r raw) string {
	if r.line > 0 {
		return fmt.Sprintf("%s:%d", w.path, r.line)
	}
	return w.path
}

func (w *walker) refuse(key string, r raw, fault, want string) {
	w.ps.add(Problem{Key: key, Origin: w.origin(r), Fault: fault, Want: want})
}
