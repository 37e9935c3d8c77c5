package brief

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// paragraphs collects the lines of one page into paragraphs.
type paragraphs struct {
	width   int             // bytes of a full line
	running map[string]bool // running headers and footers, digits aside
	out     []string
	cur     []string
	caps    bool // cur is a block of capitals: a caption or a heading
	notes   bool // below the rule: footnotes
}

func (p *paragraphs) build(lines []string) string {
	total := 0
	for _, l := range lines {
		if l != "" {
			total++
		}
	}
	seen := 0 // lines with text before this one
	for _, l := range lines {
		p.add(l, seen < 3 || total-seen <= 2)
		if l != "" {
			seen++
		}
	}
	p.flush()
	return strings.Join(p.out, "\n\n")
}

// add takes one line; edge says that it is among the first three or the last two
// with text, where running headers stand.
func (p *paragraphs) add(l string, edge bool) {
	switch {
	case l == "":
		// A caption runs on over an empty line after a comma.
		if len(p.cur) > 0 && !(p.caps && strings.HasSuffix(p.last(), ",")) {
			p.flush()
		}
	case ruleLine.MatchString(l):
		p.alone(l)
		p.notes = true
	case edge && p.running[headerKey(l)], loneMark.MatchString(l), lineHeader.MatchString(l), p.fresh() && ownLine.MatchString(l):
		p.alone(l)
	case isCapitals(l):
		p.addCapitals(l)
	default:
		p.addText(l)
	}
}

// fresh reports whether a paragraph may begin here whatever its first line is.
func (p *paragraphs) fresh() bool {
	return len(p.cur) == 0 || p.caps || endsSentence(p.last())
}

func (p *paragraphs) addCapitals(l string) {
	if !p.caps || courtLine.MatchString(l) {
		p.flush()
	}
	p.cur, p.caps = append(p.cur, l), true
}

func (p *paragraphs) addText(l string) {
	if p.caps || len(p.cur) > 0 && p.breaksBefore(l) {
		p.flush()
	}
	p.cur = append(p.cur, l)
}

// breaksBefore reports whether a new paragraph starts at l: the line before is
// short and ends a sentence, or l opens a numbered item, a footnote or a field.
func (p *paragraphs) breaksBefore(l string) bool {
	prev := p.last()
	if p.notes && noteStart.MatchString(l) && endsSentence(prev) {
		return true
	}
	if fieldStart.MatchString(l) && len(prev) < p.width*3/4 {
		return true
	}
	if !endsSentence(prev) && !strings.HasSuffix(prev, ":") && !strings.HasSuffix(prev, ";") {
		return false
	}
	if listStart.MatchString(l) {
		return true
	}
	r, _ := utf8.DecodeRuneInString(l)
	return len(prev) < p.width*4/5 && endsSentence(prev) && !unicode.IsLower(r)
}

func (p *paragraphs) last() string { return p.cur[len(p.cur)-1] }

func (p *paragraphs) alone(l string) {
	p.flush()
	p.out = append(p.out, l)
}

func (p *paragraphs) flush() {
	if len(p.cur) > 0 {
		p.out = append(p.out, joinLines(p.cur))
	}
	p.cur, p.caps = nil, false
}

// joinLines joins with one space, or with nothing after a visible hyphen inside a
// compound ("cross-" / "border").
func joinLines(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		if i > 0 && !splitsCompound(lines[i-1], l) {
			b.WriteByte(' ')
		}
		b.WriteString(l)
	}
	return b.String()
}

func splitsCompound(prev, next string) bool {
	first, _ := utf8.DecodeRuneInString(next)
	if strings.HasSuffix(prev, "–") {
		return unicode.IsDigit(first) // a range or a docket number
	}
	stem, ok := strings.CutSuffix(prev, "-")
	if !ok {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(stem)
	return unicode.IsLetter(last) && unicode.IsLower(first)
}

// isCapitals reports whether l is set in capitals; the "v." of a caption and small
// marks do not count, and a single short word is not enough.
func isCapitals(l string) bool {
	upper := 0
	for _, w := range strings.Fields(l) {
		if w == "v." || w == "vs." {
			continue
		}
		for _, r := range w {
			if unicode.IsLower(r) {
				return false
			}
			if unicode.IsUpper(r) {
				upper++
			}
		}
	}
	return upper >= 4
}

// endsSentence reports whether s ends in a full stop, question or exclamation
// mark, closing marks and a footnote's digits aside. The stop of an abbreviation
// that wants more ("83 Stat.") does not end one.
func endsSentence(s string) bool {
	s = trimNoteNumber(strings.TrimRight(s, closingMarks))
	if s == "" || !strings.ContainsRune(".?!", rune(s[len(s)-1])) {
		return false
	}
	word := wordBefore(s, 0, len(s)-1)
	return !has(abbreviations, word) || has(finalAbbreviations, word)
}

const closingMarks = `"”’')] `

// finalAbbreviations do end a sentence at the end of a line; constant.
var finalAbbreviations = wordSet(`Inc Co Corp Ltd LLC GmbH al etc Bros`)

// trimNoteNumber cuts the one or two digits of a footnote behind a full stop.
func trimNoteNumber(s string) string {
	t := strings.TrimRight(s, "0123456789")
	n := len(s) - len(t)
	t = strings.TrimRight(t, closingMarks)
	if n == 0 || n > 2 || t == "" || !strings.ContainsRune(".?!", rune(t[len(t)-1])) {
		return s
	}
	return t
}
