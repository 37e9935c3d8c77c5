package authority

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// The classes of a difference, from harmless to what blocks: the last two do.
const (
	Same              = "none"
	Representation    = "representation"     // the same said in another way
	LegacyUnsupported = "legacy_unsupported" // the old writer never could
	ProjectionLag     = "projection_lag"     // within what the policy allows
	MigrationDefect   = "migration_defect"   // known to be wrong: mend it first
	Unexplained       = "unknown"
)

// Rule explains a difference: what may differ at a path, why, and a name under which
// its scenario is tested. Path is the keys from the root, joined by dots; * stands for
// one key or place in a list, ** at the end or the beginning for any number.
type Rule struct {
	Name, Class, Path string
	Explains          func(before, after any) bool // nil: whatever differs there
}

// Difference is what a comparison found: the worst class, the rules that explain it,
// and the paths, without what stands there.
type Difference struct {
	Class   string
	Rules   []string
	Details string
}

// Compare sets the old writer's frame beside the rail's, in one canonical form: the
// order of members, the spelling of numbers, and members that say nothing (null, "",
// an empty list or object) against absent ones make no difference. The order of lists
// does. A difference that no rule explains is Unexplained.
func Compare(before, after []byte, rules []Rule) (Difference, error) {
	old, err := canonical(before)
	if err != nil {
		return Difference{}, fmt.Errorf("authority.Compare: the old frame: %w", err)
	}
	built, err := canonical(after)
	if err != nil {
		return Difference{}, fmt.Errorf("authority.Compare: the rail's frame: %w", err)
	}
	d := Difference{Class: Same}
	walk(nil, old, built, func(path []string, a, b any) { d.add(path, a, b, rules) })
	slices.Sort(d.Rules)
	d.Rules = slices.Compact(d.Rules)
	return d, nil
}

func (d *Difference) add(path []string, before, after any, rules []Rule) {
	class, name := Unexplained, ""
	for _, r := range rules {
		if r.matches(path) && (r.Explains == nil || r.Explains(before, after)) {
			class, name = r.Class, r.Name
			d.Rules = append(d.Rules, r.Name)
			break
		}
	}
	if severity(class) > severity(d.Class) {
		d.Class = class
	}
	if len(d.Details) < 1500 {
		d.Details += strings.Join(path, ".") + " (" + class + " " + name + ") "
	}
}

func severity(class string) int {
	return slices.Index([]string{Same, Representation, LegacyUnsupported, ProjectionLag, MigrationDefect, Unexplained}, class)
}

func (r Rule) matches(path []string) bool {
	pattern := strings.Split(r.Path, ".")
	if pattern[0] == "**" {
		rest := pattern[1:]
		return len(path) >= len(rest) && segments(rest, path[len(path)-len(rest):])
	}
	if pattern[len(pattern)-1] == "**" {
		rest := pattern[:len(pattern)-1]
		return len(path) >= len(rest) && segments(rest, path[:len(rest)])
	}
	return len(path) == len(pattern) && segments(pattern, path)
}

func segments(pattern, path []string) bool {
	for i, p := range pattern {
		if p != "*" && p != path[i] {
			return false
		}
	}
	return true
}

// canonical reads a document; members that say nothing are dropped.
func canonical(doc []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return said(v), nil
}

// number is one in its shortest spelling, which is no text.
type number string

func said(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if member = said(member); member == nil {
				delete(v, name)
			} else {
				v[name] = member
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = said(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	case json.Number:
		if len(v) >= 400 {
			return v
		}
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			return number(r.RatString())
		}
	}
	return v
}

// walk reports every path at which the two differ, in order.
func walk(path []string, a, b any, report func(path []string, a, b any)) {
	if x, ok := object(a, b); ok {
		if y, ok := object(b, a); ok {
			names := slices.Collect(maps.Keys(x))
			for name := range y {
				if _, both := x[name]; !both {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			for _, name := range names {
				walk(append(slices.Clone(path), name), x[name], y[name], report)
			}
			return
		}
	}
	if x, ok := a.([]any); ok {
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				walk(append(slices.Clone(path), strconv.Itoa(i)), x[i], y[i], report)
			}
			return
		}
	}
	if !equal(a, b) {
		report(path, a, b)
	}
}

// object is v as one; what is absent is an empty one beside an object.
func object(v, beside any) (map[string]any, bool) {
	if _, ok := beside.(map[string]any); ok && v == nil {
		return nil, true
	}
	m, ok := v.(map[string]any)
	return m, ok
}

// equal compares what walk does not go into; lists of two lengths differ as a whole.
func equal(a, b any) bool {
	switch a.(type) {
	case map[string]any, []any:
		return false
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
