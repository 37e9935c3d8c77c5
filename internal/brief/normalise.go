package brief

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// softHyphen is how the PDF reader marks a hyphen at the end of a line: the two
// halves of the word follow each other with this rune between them.
const softHyphen = '\x02'

var (
	brokenWord  = regexp.MustCompile(`(\S+)\x02(\S+) ?`)
	wordPattern = regexp.MustCompile(`[\pL\d]+(?:-[\pL\d]+)*`)
	spaces      = regexp.MustCompile(`[ \t]+`)

	ruleLine   = regexp.MustCompile(`^[—–_=-]{4,}$`)
	loneMark   = regexp.MustCompile(`^(?:[IVX]{1,5}|[A-H]|\d{1,4}|- ?\d{1,4} ?-|(?:\* ?){3})\.?$`)
	lineHeader = regexp.MustCompile(`^(?:Cite as: |\(Slip Opinion\)|Page \d+( of \d+)?$)`)
	ownLine    = regexp.MustCompile(`^(?:Nos?\. [\dA-Z]|\[[A-Z][a-z]+ \d{1,2}, \d{4}\]$|Held:$|Syllabus$)`)
	courtLine  = regexp.MustCompile(`^(?:ON (?:WRIT|PETITION|APPEAL)|CERTIORARI|APPEAL FROM|ON CROSS)`)
	listStart  = regexp.MustCompile(`^(?:\((?:\d{1,2}|[a-z]|[ivx]{1,4})\)|\d{1,2}\.(?:\d{1,2}\.?)?) ["“‘\[]?[A-Z§]`)
	noteStart  = regexp.MustCompile(`^\d{1,3} ?["“‘\[(]?[A-Z§]`)
	fieldStart = regexp.MustCompile(`^[A-Z][A-Za-z]{1,14}(?: [A-Za-z]{1,14})?: \S`)
)

// normalise makes paragraphs out of the lines of a document's pages, once, at
// ingest. Within a paragraph lines are joined by one space and words broken at a
// line's end are mended; paragraphs, headings, running headers and the rule above
// footnotes stand apart, separated by an empty line. It is a pure function of its
// argument. The document is taken as a whole because a running header shows only
// by its repetition and a hyphen only by how the word is written elsewhere.
func normalise(raw []string) []string {
	words := spellings(raw)
	lines := make([][]string, len(raw))
	for i, page := range raw {
		lines[i] = pageLines(mend(page, words))
	}
	width, running := lineWidth(lines), runningLines(lines)
	out := make([]string, len(raw))
	for i := range lines {
		p := paragraphs{width: width, running: running}
		out[i] = p.build(lines[i])
		lines[i] = nil
	}
	return out
}

// spellings counts each word of the document as it is written away from a line's
// end, in lower case; hyphenated compounds count as one word.
func spellings(raw []string) map[string]int {
	n := map[string]int{}
	for _, page := range raw {
		for _, chunk := range strings.Fields(page) {
			if strings.ContainsRune(chunk, softHyphen) {
				continue
			}
			for _, w := range wordPattern.FindAllString(chunk, -1) {
				n[strings.ToLower(w)]++
			}
		}
	}
	return n
}

// mend joins words broken at the end of a line and moves the break behind them.
// The hyphen stays where the document writes the compound with one elsewhere, or
// writes both halves but never the joined word.
func mend(page string, words map[string]int) string {
	page = brokenWord.ReplaceAllStringFunc(page, func(m string) string {
		left, right, _ := strings.Cut(strings.TrimSuffix(m, " "), string(softHyphen))
		hyphen := ""
		if keepsHyphen(left, right, words) {
			hyphen = "-"
		}
		return left + hyphen + right + "\n"
	})
	return strings.ReplaceAll(page, string(softHyphen), "")
}

func keepsHyphen(left, right string, words map[string]int) bool {
	l, r := lastWord(left), firstWord(right)
	if words[l+r] > 0 {
		return false
	}
	if words[l+"-"+r] > 0 {
		return true
	}
	if len(l) > 4 && (r == "law" || r == "based" || r == "owned" || r == "related") {
		return true
	}
	return len(l) > 4 && len(r) > 2 && words[l] > 0 && words[r] > 0
}

func lastWord(s string) string {
	all := wordPattern.FindAllString(s, -1)
	if len(all) == 0 {
		return ""
	}
	return strings.ToLower(all[len(all)-1])
}

func firstWord(s string) string { return strings.ToLower(wordPattern.FindString(s)) }

// pageLines splits a page and cleans each line: one kind of space, no control
// characters, no invisible hyphens. Nothing else is changed.
func pageLines(page string) []string {
	page = strings.ReplaceAll(page, "\r\n", "\n")
	lines := strings.Split(strings.ReplaceAll(page, "\r", "\n"), "\n")
	for i, l := range lines {
		lines[i] = cleanLine(l)
	}
	return lines
}

func cleanLine(l string) string {
	l = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || unicode.Is(unicode.Zs, r):
			return ' '
		case unicode.IsControl(r) || r == '\u00ad' || r == '\ufeff' || r == '\ufffe' || r == '\uffff':
			return -1
		}
		return r
	}, l)
	return strings.TrimSpace(spaces.ReplaceAllString(l, " "))
}

// lineWidth is the upper quartile of the line lengths in bytes: what a full line
// of this document measures.
func lineWidth(pages [][]string) int {
	var n []int
	for _, lines := range pages {
		for _, l := range lines {
			if l != "" {
				n = append(n, len(l))
			}
		}
	}
	if len(n) == 0 {
		return 0
	}
	slices.Sort(n)
	return n[len(n)*3/4]
}

// runningLines are the lines, digits aside, that stand near the top or the foot
// of two pages or more.
func runningLines(pages [][]string) map[string]bool {
	seen := map[string]int{}
	for _, lines := range pages {
		onPage := map[string]bool{}
		for _, l := range edgeLines(lines) {
			onPage[headerKey(l)] = true
		}
		for k := range onPage {
			seen[k]++
		}
	}
	running := map[string]bool{}
	for k, n := range seen {
		running[k] = n >= 2 && k != ""
	}
	return running
}

// edgeLines returns the first three and the last two lines that have text.
func edgeLines(lines []string) []string {
	full := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return l == "" })
	if len(full) <= 5 {
		return full
	}
	return append(full[:3:3], full[len(full)-2:]...)
}

func headerKey(l string) string {
	l = strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, l)
	return strings.TrimSpace(l)
}
