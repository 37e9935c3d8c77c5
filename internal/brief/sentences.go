package brief

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// abbreviations never end a sentence; with starters behind them they may; constant.
var abbreviations = wordSet(`v vs U S F Inc Co Corp Ltd LLC No Nos Art Arts cl cls Cl Stat Pub L App Pet Cert
	Okla Tex Ark La Cal Ky Tit Dept Assn Fed Sav Cty Div Ry Cf cf e.g i.e id Id n nn p pp Pp Mr Mrs Ms Dr Jr Sr St Gov Gen
	Res H Sess 2d 3d Dist Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec ex rel al etc Ch ch Sec Secs sec Ex Exh Vol ed
	Rev Supp Ct So Cir seq op infra supra Bros Mfg Intl Reg Regs par para paras approx ca GmbH`)

// starters are words that open a sentence rather than go on after an abbreviation; constant.
var starters = wordSet(`The In On It This These Those That But And Under At By We They However If When While Once Since
	For To As After Before Because Such Its Their There Here No Neither See Nor Thus Accordingly Second First Third`)

func wordSet(s string) map[string]struct{} {
	set := map[string]struct{}{}
	for w := range strings.FieldsSeq(s) {
		set[w] = struct{}{}
	}
	return set
}

func has(set map[string]struct{}, w string) bool {
	_, ok := set[w]
	return ok
}

// splitSentences returns the byte ranges of the sentences of s. It keeps together
// what legal prose is full of: "Texas v. New Mexico, 482 U. S. 124", "Inc.",
// "No. 7", "§5.05(b)", ellipses and numbered items.
func splitSentences(s string) [][2]int {
	var out [][2]int
	start := 0
	for i := 0; i < len(s); i++ {
		if s[i] != '.' && s[i] != '?' && s[i] != '!' {
			continue
		}
		end := closeSentence(s, i+1)
		if end < len(s) && !startsSentence(s, start, i, end) {
			continue
		}
		out = append(out, [2]int{start, end})
		start = end + len(s[end:]) - len(strings.TrimLeft(s[end:], " "))
		i = max(i, start-1)
	}
	if strings.TrimSpace(s[start:]) != "" {
		out = append(out, [2]int{start, len(s)})
	}
	return out
}

// closeSentence takes in closing quotes and brackets, and a footnote's number.
func closeSentence(s string, i int) int {
	closers := func() {
		for i < len(s) {
			r, n := utf8.DecodeRuneInString(s[i:])
			spaced := r == ' ' && strings.HasPrefix(s[i+1:], "”") // “... ‘waters.’ ”
			if !spaced && !strings.ContainsRune(`"”’')]`, r) {
				return
			}
			i += n
		}
	}
	closers()
	j := i
	for j < len(s) && j-i < 3 && s[j] >= '0' && s[j] <= '9' {
		j++
	}
	if j > i && j-i <= 2 && (j == len(s) || s[j] == ' ') {
		i = j
	}
	return i
}

// startsSentence decides whether the mark at i ends the sentence that began at
// start, given what follows at end.
func startsSentence(s string, start, i, end int) bool {
	if s[end] != ' ' {
		return false
	}
	next := strings.TrimLeft(s[end:], " ")
	if !opensSentence(next) {
		return false
	}
	if s[i] != '.' || end > i+1 {
		return !strings.HasSuffix(s[:i], ". .")
	}
	word := wordBefore(s, start, i)
	switch {
	case word == "": // a bracket, a blank "___" or, no end at all, an ellipsis
		return i > start && s[i-1] != ' ' && s[i-1] != '.'
	case strings.TrimSpace(s[start:i]) == word && len(word) <= 4: // "1." or "(a)." as a number
		return false
	case has(abbreviations, word) || len(word) == 1 && unicode.IsUpper(rune(word[0])):
		first, _, _ := strings.Cut(next, " ")
		return has(starters, strings.TrimRight(first, ",;:"))
	}
	return true
}

// opensSentence accepts a capital, an opening mark, a section sign or a number.
func opensSentence(next string) bool {
	r, _ := utf8.DecodeRuneInString(next)
	if strings.ContainsRune(`“"‘'([`, r) {
		inner := strings.TrimLeft(next, `“"‘'([ `)
		r, _ = utf8.DecodeRuneInString(inner)
		return unicode.IsUpper(r) || r == '§' || strings.HasPrefix(next, "“[") || strings.HasPrefix(next, "(")
	}
	return unicode.IsUpper(r) || unicode.IsDigit(r) || r == '§' || r == '*'
}

// maxWord is longer than any abbreviation.
const maxWord = 16

func wordBefore(s string, start, i int) string {
	j := i
	for j > start && i-j < maxWord {
		r, n := utf8.DecodeLastRuneInString(s[start:j])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' {
			break
		}
		j -= n
	}
	return s[j:i]
}
