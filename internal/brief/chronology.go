package brief

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

var (
	citesOnly = regexp.MustCompile(`^(?:See\b|But see\b|Cf\.|Accord\b|Id\.|Ibid\.|Pp?\. |Brief for|Reply Brief|Compact, |Comment on|` +
		`Arts?\. |App\. |§|\d+ (?:U\.|F\.|Stat|S\.)|Nos?\. |Restatement|[“(]?(?:[A-Z][\pL.&’'-]*\.? |of |ex rel\. ){1,8}v\. )`)
	procedural = regexp.MustCompile(`\b(?:affirmed|reversed|granted|denied|dismissed|vacated|remanded)\b`)
	courtName  = regexp.MustCompile(`^(?:CA\d|CADC|CAFed|[NSEWCM]?D\.? |\d\w+ Cir|Ct\. )`)
	afterCite  = regexp.MustCompile(`[\d_)A-Z.]\s*$`)
	dateOnly   = regexp.MustCompile(`^[\[(]?(?:[Dd]ated )?[\[(]?$`)
	opinionBy  = regexp.MustCompile(`^(?:[A-Z]+ ){2,6}delivered the opinion[^.]*\.`)
)

// chronology finds the dated statements of a document.
func (o *outline) chronology() []Dated {
	var out []Dated
	for i, s := range o.sentences {
		for _, w := range findDates(s.text()) {
			if d, ok := o.dated(i, w); ok {
				out = append(out, d)
			}
		}
	}
	return withoutCoarser(out)
}

// dated turns a date found in sentence i into an item, unless it only dates a
// citation: the year of a reported case is no event of this matter.
func (o *outline) dated(i int, w when) (Dated, bool) {
	s := o.sentences[i]
	if o.isDateOnly(s, w) {
		return o.openingDate(i, w)
	}
	start := s.start
	switch verdict := o.judge(i, w); {
	case verdict == refuse:
		return Dated{}, false
	case verdict == withSentenceBefore && o.samePage(i):
		start = o.sentences[i-1].start
	}
	page, quote, whole := s.in.quoteAt(start, s.end, s.start+w.start)
	return o.item(w, page, quote, whole), true
}

func (o *outline) item(w when, page int, quote, whole string) Dated {
	return Dated{
		Date: w.date, Until: w.until, Precision: w.precision,
		Citation: o.doc.cite(page, quote), Sentence: whole,
	}
}

type verdict int

const (
	refuse verdict = iota
	accept
	withSentenceBefore // the date stands in the citation that follows its event
)

func (o *outline) judge(i int, w when) verdict {
	text := o.sentences[i].text()
	cites := citesOnly.MatchString(text)
	before, inside := enclosing(text, w.start)
	switch {
	case strings.HasSuffix(text[:w.start], "Act of "):
		return glueIf(cites)
	case inside && afterCite.MatchString(before):
		return o.judgeCase(i, text, before, cites, w)
	case cites || strings.HasPrefix(text[w.start:], "("):
		return refuse
	}
	return accept
}

// judgeCase weighs the date that closes a citation, "(WD Okla., July 16, 2010)":
// it counts for a decision in this matter, which is cited without a case name.
func (o *outline) judgeCase(i int, text, before string, cites bool, w when) verdict {
	if strings.Contains(text, " v. ") {
		return refuse
	}
	if w.precision == "day" && courtName.MatchString(text[len(before)+1:]) {
		return glueIf(cites)
	}
	if !cites && procedural.MatchString(before) {
		return accept
	}
	if cites && text[0] >= '0' && text[0] <= '9' && i > 0 && procedural.MatchString(o.sentences[i-1].text()) {
		return withSentenceBefore
	}
	return refuse
}

func glueIf(cites bool) verdict {
	if cites {
		return withSentenceBefore
	}
	return accept
}

// samePage reports whether the sentence before i belongs to the same passage and
// stands on the page where sentence i begins.
func (o *outline) samePage(i int) bool {
	if i == 0 || o.sentences[i-1].in != o.sentences[i].in {
		return false
	}
	prev, s := o.sentences[i-1], o.sentences[i]
	a, _, torn := prev.in.quoteAt(prev.start, prev.end, prev.start)
	b, _, tornToo := s.in.quoteAt(s.start, s.end, s.start)
	return a == b && torn == "" && tornToo == ""
}

// enclosing returns the text before the open bracket around at, if there is one.
func enclosing(text string, at int) (before string, inside bool) {
	if strings.HasPrefix(text[at:], "(") {
		return text[:at], true
	}
	open := strings.LastIndexByte(text[:at], '(')
	if open < 0 || strings.Contains(text[open:at], ")") {
		return "", false
	}
	return text[:open], true
}

func (o *outline) isDateOnly(s sentence, w when) bool {
	text := s.text()
	return dateOnly.MatchString(text[:w.start]) && len(strings.Trim(text[w.end:], "]). ")) == 0
}

// openingDate is a date that stands by itself, as above an opinion: it dates the
// sentence that follows, and is dropped when nothing says what was done.
func (o *outline) openingDate(i int, w when) (Dated, bool) {
	if i+1 >= len(o.sentences) {
		return Dated{}, false
	}
	a, b := o.sentences[i].in.parts[0], o.sentences[i+1].in.parts[0]
	done := opinionBy.FindString(b.text)
	if done == "" || a.page != b.page {
		return Dated{}, false
	}
	quote := o.doc.pages[a.page-1][a.off : b.off+len(done)]
	return o.item(w, a.page, quote, ""), true
}

// withoutCoarser drops a year that an exact date of the same sentence makes idle:
// "in 1955 Congress authorized …" beside the act of August 11, 1955.
func withoutCoarser(all []Dated) []Dated {
	out := all[:0:0]
	for i, d := range all {
		near := all[max(0, i-4):min(len(all), i+5)] // dates of one sentence are neighbours
		finer := func(e Dated) bool {
			return e.Precision == "day" && strings.HasPrefix(e.Date, d.Date) && e.Page == d.Page && strings.HasPrefix(e.Quote, d.Quote)
		}
		if d.Precision != "year" || d.Until != "" || !slices.ContainsFunc(near, finer) {
			out = append(out, d)
		}
	}
	return out
}

// sortDated orders by date, a less precise one first, then by place in the record.
func sortDated(all []Dated) {
	slices.SortStableFunc(all, func(a, b Dated) int { return cmp.Compare(a.Date, b.Date) })
}
