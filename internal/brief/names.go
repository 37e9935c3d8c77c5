package brief

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// openers are words that open a sentence before its subject, the articles aside; constant.
var openers = wordSet(`Because Although Though While Since When If As After Before Once Second First Third Fourth Finally Then
	Here There But And Yet So Thus Accordingly Indeed Moreover Further In On At By For Under Nor Obviously Later`)

// dropOpeners cuts openers off the head of a subject.
func dropOpeners(name string) string {
	for {
		first, rest, ok := strings.Cut(name, " ")
		if !has(openers, strings.Trim(first, ",")) {
			return name
		}
		if !ok {
			return ""
		}
		name = rest
	}
}

// byName returns the party that name stands for: one of its names, or a role that
// only one party has.
func (t *parties) byName(name string) *Party {
	if p := t.find(name); p != nil {
		return p
	}
	if !roleOnly.MatchString(name) {
		return nil
	}
	var only *Party
	for _, p := range t.list {
		if p.Role != singular(name) {
			continue
		}
		if only != nil {
			return nil
		}
		only = p
	}
	return only
}

var commonNouns = regexp.MustCompile(`^(?:This|That|These|Those|Such|Many|Three|Two|One|Any|All|Some|Each|Every|None|Neither|Nothing|` +
	`Given|Provisions|Read|Question|Subbasin|Reach)\b`)

var properNamePattern = regexp.MustCompile(properName)

// properNames collects the names that keep their capital in the middle of a
// sentence, and their last parts ("Board of Oklahoma" and "Oklahoma").
func properNames(all []*passage) map[string]struct{} {
	set := map[string]struct{}{}
	for _, p := range all {
		for _, m := range properNamePattern.FindAllStringIndex(p.text, -1) {
			before := strings.TrimRight(p.text[max(0, m[0]-8):m[0]], " ")
			r, _ := utf8.DecodeLastRuneInString(before)
			if unicode.IsLower(r) || r == ',' || r == ':' || r == ';' {
				addName(set, p.text[m[0]:m[1]])
			}
		}
	}
	return set
}

func addName(set map[string]struct{}, name string) {
	name = strings.TrimSuffix(strings.TrimSuffix(name, "."), "’s")
	for name != "" {
		set[strings.Clone(name)] = struct{}{}
		_, rest, ok := strings.Cut(name, " ")
		if !ok {
			return
		}
		name = rest
	}
}

// isProper reports whether the document uses name as a proper name.
func (o *outline) isProper(name string) bool {
	if commonNouns.MatchString(name) {
		return false
	}
	owner, _, _ := strings.Cut(name, "’s ") // "Oklahoma’s attorney general"
	return organisation.MatchString(name) || has(o.proper, owner)
}
