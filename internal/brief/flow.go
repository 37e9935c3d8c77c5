package brief

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// part is a paragraph, or the part of one that stands on one page.
type part struct {
	page  int    // 1-based
	off   int    // byte offset in the stored text of the page
	text  string // verbatim
	start int    // byte offset in the passage
}

// passage is a paragraph that may run on over page breaks: its text, and where
// each stretch of it is stored. Footnotes run on from page to page by themselves.
type passage struct {
	text  string
	parts []part
	note  bool
	after string // the heading or label that stands directly before it, if any
}

// sentence is one sentence of a passage.
type sentence struct {
	in         *passage
	start, end int // in in.text
	index      int // place among the passage's sentences
}

func (s sentence) text() string { return s.in.text[s.start:s.end] }

// outline is a document taken apart: what is read as prose, and what stands above
// it as headings.
type outline struct {
	doc       *document
	passages  []*passage
	sentences []sentence
	headings  []part              // captions, titles; running headers are left out
	opinion   bool                // a court speaks here as "we"
	last      [2]*passage         // the newest passage of text, and of footnotes
	proper    map[string]struct{} // names that keep their capital inside a sentence
}

// takeApart sorts the paragraphs of each page into headings, prose and footnotes
// and joins what a page break has torn.
func takeApart(doc *document) *outline {
	o := &outline{doc: doc}
	running := runningLines(paragraphLists(doc.pages))
	label := ""
	for i, text := range doc.pages {
		o.addPage(i+1, text, running, &label)
	}
	for _, p := range o.passages {
		o.sentences = append(o.sentences, p.sentences()...)
	}
	o.proper = properNames(o.passages)
	return o
}

func paragraphLists(pages []string) [][]string {
	out := make([][]string, len(pages))
	for i, p := range pages {
		out[i] = strings.Split(p, "\n\n")
	}
	return out
}

func (o *outline) addPage(page int, text string, running map[string]bool, label *string) {
	prose, notes, off := false, false, 0
	paras := strings.Split(text, "\n\n")
	for i, para := range paras {
		at := part{page: page, off: off, text: para}
		off += len(para) + len("\n\n")
		edge := i < 3 || i >= len(paras)-2
		switch {
		case para == "" || edge && running[headerKey(para)] || lineHeader.MatchString(para):
			if strings.HasPrefix(para, "Opinion of the Court") {
				o.opinion = true
			}
		case ruleLine.MatchString(para):
			notes = notes || prose // a rule at the top of a page parts nothing
		case isHeading(para):
			o.headings, *label = append(o.headings, at), para
		default:
			o.addProse(at, notes, *label)
			prose = true
			*label = ""
		}
	}
}

var courtSpeaks = regexp.MustCompile(`delivered the opinion|^Opinion of the Court`)

func (o *outline) addProse(at part, note bool, label string) {
	if courtSpeaks.MatchString(at.text) {
		o.opinion = true
	}
	if p := o.unfinished(note, at); p != nil && label == "" {
		p.append(at)
		return
	}
	p := &passage{note: note, after: label}
	p.append(at)
	o.passages, o.last[kindOfProse(note)] = append(o.passages, p), p
}

// maxParts bounds a passage: prose that never ends over more pages is a table.
const maxParts = 8

// unfinished returns the last passage of the same kind when it broke off at the
// foot of an earlier page.
func (o *outline) unfinished(note bool, at part) *passage {
	p := o.last[kindOfProse(note)]
	if p == nil {
		return nil
	}
	last := p.parts[len(p.parts)-1]
	if last.page != at.page-1 || len(p.parts) >= maxParts || endsSentence(p.text) || listStart.MatchString(at.text) {
		return nil
	}
	return p
}

func kindOfProse(note bool) int {
	if note {
		return 1
	}
	return 0
}

// append adds a stretch from a later page; a word broken over the page is mended.
func (p *passage) append(at part) {
	if p.text != "" {
		last := &p.parts[len(p.parts)-1]
		first, _ := utf8.DecodeRuneInString(at.text)
		if stem, ok := strings.CutSuffix(p.text, "-"); ok && unicode.IsLower(first) {
			p.text = stem
			last.text = strings.TrimSuffix(last.text, "-")
		} else {
			p.text += " "
		}
	}
	at.start = len(p.text)
	p.text += at.text
	p.parts = append(p.parts, at)
}

// maxSentence is the most bytes that can be one sentence. What is longer has no
// full stops, like a table, and no quote of it would help a reader.
const maxSentence = 4000

// sentences splits the passage.
func (p *passage) sentences() []sentence {
	spans := splitSentences(p.text)
	out := make([]sentence, 0, len(spans))
	for _, s := range spans {
		if s[1]-s[0] > maxSentence {
			continue
		}
		start := s[0] + markerLength(p.text[s[0]:s[1]], p.note)
		out = append(out, sentence{in: p, start: start, end: s[1], index: len(out)})
	}
	return out
}

var (
	itemMarker = regexp.MustCompile(`^(?:\((?:\d{1,2}|[a-z]|[ivx]{1,4})\) |\d{1,2}\.(?:\d{1,2}\.?)? )`)
	noteMarker = regexp.MustCompile(`^\d{1,3} ?(?:["“‘\[(]?[A-Z§])`)
	gluedNote  = regexp.MustCompile(`^\d{1,2}["“‘\[(]?[A-Z][a-z]`)
	leadDigits = regexp.MustCompile(`^\d{1,3} ?`)
)

// markerLength is the length of an item's or footnote's number before a sentence;
// the number is no part of the statement.
func markerLength(s string, note bool) int {
	n := len(itemMarker.FindString(s))
	if rest := s[n:]; gluedNote.MatchString(rest) || note && noteMarker.MatchString(rest) {
		n += len(leadDigits.FindString(rest))
	}
	return n
}

// quoteAt cuts the quote that holds the passage's bytes [start,end), on the page
// where byte at stands. whole is the full sentence if the page break tore it.
func (p *passage) quoteAt(start, end, at int) (page int, quote, whole string) {
	for _, x := range p.parts {
		stop := x.start + len(x.text)
		if at < x.start || at >= stop {
			continue
		}
		from, to := max(start, x.start), min(end, stop)
		quote = strings.TrimSpace(p.text[from:to])
		if from != start || to != end {
			whole = strings.TrimSpace(p.text[start:end])
		}
		return x.page, quote, whole
	}
	return 0, "", ""
}

var titleWord = regexp.MustCompile(`^[A-Z][\w&’'-]*$`)

// isHeading reports whether a paragraph is set as a heading: capitals, a lone
// number or letter, a docket line, or a short line without a full stop whose
// words all have capitals.
func isHeading(p string) bool {
	if loneMark.MatchString(p) || p == "Held:" || p == "Syllabus" || isCapitals(p) {
		return true
	}
	if len(p) > 100 || endsSentence(p) || strings.ContainsAny(p, ",:[") {
		return false
	}
	for _, w := range strings.Fields(p) {
		if !titleWord.MatchString(w) && !smallWord(w) {
			return false
		}
	}
	return true
}

func smallWord(w string) bool {
	switch w {
	case "of", "the", "and", "for", "in", "on", "to", "v.", "by", "with", "a", "an":
		return true
	}
	return strings.Trim(w, "0123456789.–-") == ""
}
