package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"briefrail/internal/rail"
)

// settleUnset marks a rule that names no settle of its own until Load gives it
// that of settle.quiet.
const settleUnset time.Duration = -1

// ofList makes a parser of a list; a variable holds it in flow form, which JSON is.
func ofList(f func([]raw) (any, error)) func(raw) (any, error) {
	return func(r raw) (any, error) {
		if r.form == scalar && r.unparsed {
			parsed, err := parseFlow(r.text)
			if err != nil {
				return nil, errors.New("is not a list")
			}
			r = parsed
		}
		if r.form != list {
			return nil, fmt.Errorf("is %s, not a list", r.form)
		}
		return f(r.items)
	}
}

func texts() kind {
	return kind{name: "list of texts", list: true, want: `a list such as ["/usr/bin/build", "--fast"]`, parse: ofList(func(items []raw) (any, error) {
		all := make([]string, 0, len(items))
		for i, r := range items {
			if r.form != scalar || strings.ContainsRune(r.text, 0) || (i == 0 && r.text == "") {
				return nil, fmt.Errorf("item %d is not a text", i+1)
			}
			all = append(all, r.text)
		}
		return all, nil
	})}
}

// choices is a list of different words of a closed set.
func choices(words ...string) kind {
	return kind{
		name: "list of words", list: true, want: "a list of " + strings.Join(words, ", ") + ", such as [" + words[0] + "]",
		bounds: strings.Join(words, ", "), parse: ofList(func(items []raw) (any, error) {
			all := make([]string, 0, len(items))
			for i, r := range items {
				if r.form != scalar || !slices.Contains(words, r.text) {
					return nil, fmt.Errorf("item %d is not a known word", i+1)
				}
				if slices.Contains(all, r.text) {
					return nil, fmt.Errorf("item %d: %s is there twice", i+1, r.text)
				}
				all = append(all, r.text)
			}
			return all, nil
		}),
	}
}

func uuids() kind {
	return kind{name: "list of UUIDs", list: true, want: `a list such as ["01234567-89ab-cdef-0123-456789abcdef"]`, parse: ofList(func(items []raw) (any, error) {
		all := make([]rail.UUID, 0, len(items))
		for i, r := range items {
			id, err := rail.ParseUUID(r.text)
			if err != nil {
				return nil, fmt.Errorf("item %d: %w", i+1, err)
			}
			if slices.Contains(all, id) {
				return nil, fmt.Errorf("item %d: %s is there twice", i+1, id)
			}
			all = append(all, id)
		}
		return all, nil
	})}
}

func rules() kind {
	return kind{
		name: "list of rules", list: true,
		want: `a list such as [{name: document.uploaded, priority: standard, settle: 5s}], each name once`,
		parse: ofList(func(items []raw) (any, error) {
			all := make([]Rule, 0, len(items))
			var problems []error
			for i, r := range items {
				rule, err := parseRule(r)
				if err == nil && slices.ContainsFunc(all, func(o Rule) bool { return o.Name == rule.Name }) {
					err = fmt.Errorf("%s has a rule already", rule.Name)
				}
				if err != nil {
					problems = append(problems, fmt.Errorf("item %d: %w", i+1, err))
					continue
				}
				all = append(all, rule)
			}
			return all, joinLine(problems)
		}),
	}
}

// joinLine joins errors on one line: they belong to one setting.
func joinLine(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	words := make([]string, len(errs))
	for i, e := range errs {
		words[i] = e.Error()
	}
	return errors.New(strings.Join(words, "; "))
}

func parseRule(r raw) (Rule, error) {
	if r.form != object {
		return Rule{}, fmt.Errorf("is %s, not an object with name and priority", r.form)
	}
	rule := Rule{Settle: settleUnset}
	seen := map[string]bool{}
	for _, f := range r.fields {
		if seen[f.name] {
			return Rule{}, fmt.Errorf("%.40q is there twice", f.name)
		}
		seen[f.name] = true
		if err := rule.set(f.name, f.value); err != nil {
			return Rule{}, err
		}
	}
	if !seen["name"] || !seen["priority"] {
		return Rule{}, errors.New("needs a name and a priority")
	}
	return rule, nil
}

// set fills one field of the rule.
func (u *Rule) set(field string, r raw) (err error) {
	if r.form != scalar {
		return fmt.Errorf("%.40q is %s, not a single value", field, r.form)
	}
	switch field {
	case "name":
		if u.Name, err = rail.ParseEventName(r.text); err == nil && rail.OwnFact(u.Name) {
			return fmt.Errorf("%s is the rail's own fact and can never trigger", u.Name)
		}
	case "priority":
		u.Priority, err = rail.ParsePriority(r.text)
	case "settle":
		var v any
		if v, err = duration("0", "1h").parse(r); err != nil {
			return fmt.Errorf("settle %.40q %w", r.text, err)
		}
		u.Settle, _ = v.(time.Duration)
	default:
		return fmt.Errorf("%.40q is no field of a rule: use name, priority and settle", field)
	}
	return err
}
