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

// isProper reports whether the document uses name as a proper name: somewhere it
// keeps its capital in the middle of a sentence.
func (o *outline) isProper(name string) bool {
	if commonNouns.MatchString(name) {
		return false
	}
	if organisation.MatchString(name) {
		return true
	}
	for _, p := range o.passages {
		if insideSentence(p.text, name) {
			return true
		}
	}
	return false
}

func insideSentence(text, name string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		at += i
		before := strings.TrimRight(text[:at], " ")
		r, _ := utf8.DecodeLastRuneInString(before)
		if unicode.IsLower(r) || r == ',' || r == ':' || r == ';' {
			return true
		}
		at += len(name)
	}
}
