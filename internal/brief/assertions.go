package brief

import (
	"regexp"
	"strings"
	"unicode"
)

// The kinds of assertion.
const (
	kindClaim     = "claim"
	kindDenial    = "denial"
	kindAdmission = "admission"
	kindRequest   = "request"
	kindRuling    = "ruling"
	kindTerm      = "term"
)

// assertionVerbs are the finite forms that make an assertion, by kind; constant.
var assertionVerbs = verbTable(map[string]string{
	kindClaim: `argue argues argued claim claims claimed contend contends contended assert asserts asserted allege alleges alleged
		maintain maintains maintained submit submits submitted counter counters countered observe observes observed reason reasons reasoned
		insist insists insisted suggests suggested urge urges urged states stated explain explains explained believes believed
		report reports reported warn warns warned notified declare declares declared represented replied responded
		interpret interprets interpreted reads points pointed continues complained complains advised estimates estimated`,
	kindDenial: `deny denies denied dispute disputes disputed reject rejects rejected contest contests contested
		challenge challenges challenged refuse refuses refused objects objected disagrees disagreed`,
	kindAdmission: `admit admits admitted concede concedes conceded acknowledge acknowledges acknowledged agree agrees agreed
		stipulate stipulates stipulated confirm confirms confirmed accepts accepted`,
	kindRequest: `ask asks asked seek seeks sought request requests requested demand demands demanded sued`,
	kindRuling: `hold holds held conclude concludes concluded affirm affirms affirmed find finds found rule ruled decide decides decided
		determined granted grants dismissed reversed think thinks ordered awarded persuaded unpersuaded convinced understood`,
	kindTerm: `provides provided requires required require governs prohibits forbids permits entitles obliges defines reserves allows
		limits warrants undertakes undertook shall`,
})

func verbTable(kinds map[string]string) map[string]string {
	table := map[string]string{}
	for kind, forms := range kinds {
		for f := range strings.FieldsSeq(forms) {
			table[f] = kind
		}
	}
	return table
}

var (
	lowerWord  = regexp.MustCompile(`\b[a-z]+\b`)
	quotedSpan = regexp.MustCompile(`“[^”]*(?:”|$)|"[^"]*(?:"|$)`)
	bracketed  = regexp.MustCompile(` \([^()]*\)`)
	apposition = regexp.MustCompile(`,(?:[^,;:]|\d,\d){2,110},$`)
	viewOf     = regexp.MustCompile(`(?:^|, )(?:[Aa]ccording to|[Ii]n) (` + properName + `|the ` + properName + `)(?:’s (?:own )?view)?,`)
	// A belief or claim that is only supposed is none.
	hypothetical = regexp.MustCompile(`(?:^|[ ,])(?:[Ii]f|[Ww]hether|[Uu]nless)(?: the)? ?(?:$|[A-Z])`)
	// "a driver of Halden found": the subject is the driver.
	preposition = regexp.MustCompile(`(?:^|[ ,])(?:of|by|to|from|with|for|against|under|between|within|than|like)(?: the)? $`)
	heldItem    = regexp.MustCompile(`^\d{1,2}\. [A-Z]`)
)

// adverbs and auxiliaries may stand between an actor and its verb; constant.
var betweens = wordSet(`also further then now thus therefore repeatedly again similarly expressly likewise instead itself themselves
	consistently nevertheless still only first already later clearly correctly has have had does did do not never no longer
	will would shall must may can could should is are was were be been however formally promptly both each`)

// beForms make a verb passive; constant.
var beForms = wordSet(`is are was were be been`)

// assertions finds the sentences of a document in which somebody asserts.
func (o *outline) assertions(t *parties) []Assertion {
	var out []Assertion
	held := false
	for i, s := range o.sentences {
		held = held || s.in.after == "Held:"
		if held && s.index == 0 && heldItem.MatchString(s.in.text) {
			out = append(out, o.assertion(s, "The Court", kindRuling, "held", 0, false))
			continue
		}
		if a, ok := o.asserted(t, i); ok {
			out = append(out, a)
		}
	}
	return out
}

func (o *outline) assertion(s sentence, by, kind, verb string, at int, negated bool) Assertion {
	page, quote, whole := s.in.quoteAt(s.start, s.end, s.start+at)
	return Assertion{By: by, Kind: kind, Verb: verb, Negated: negated, Citation: o.doc.cite(page, quote), Sentence: whole}
}

// asserted looks for the first verb of assertion whose subject can assert. Words
// inside quotation marks and brackets are somebody else's and do not count.
func (o *outline) asserted(t *parties, i int) (Assertion, bool) {
	s := o.sentences[i]
	text := s.text()
	if len(text) < 30 || citesOnly.MatchString(text) {
		return Assertion{}, false
	}
	masked := mask(text)
	if m := viewOf.FindStringSubmatchIndex(masked); m != nil {
		if a := o.identify(t, speaker{name: masked[m[2]:m[3]], class: named}, ""); a.class == party || strings.HasPrefix(masked[m[0]:], "According") && a.name != "" {
			return o.assertion(s, a.name, kindClaim, viewWord(masked[m[0]:m[1]]), m[0], false), true
		}
	}
	for _, m := range lowerWord.FindAllStringIndex(masked, -1) {
		verb := masked[m[0]:m[1]]
		kind, ok := assertionVerbs[verb]
		if !ok {
			continue
		}
		if a := o.actor(t, i, masked[:m[0]]); a.mayDo(kind, verb) {
			return o.assertion(s, a.name, a.kindOf(kind), verb, m[0], a.negated), true
		}
	}
	return Assertion{}, false
}

func viewWord(phrase string) string {
	if strings.Contains(phrase, "view") {
		return "view"
	}
	return "according to"
}

// mask blanks quoted and bracketed words, keeping every byte's place.
func mask(s string) string {
	blank := func(m string) string { return strings.Repeat(" ", len(m)) }
	return bracketed.ReplaceAllStringFunc(quotedSpan.ReplaceAllStringFunc(s, blank), blank)
}

// class says what kind of thing speaks.
type class int

const (
	nobody class = iota
	party        // a party of this matter, by name, short name or role
	court
	instrument // a contract, statute, clause
	named      // any other proper name
)

// speaker is the subject before a verb.
type speaker struct {
	name    string
	class   class
	negated bool
	passive bool // a form of "to be" stands before the verb
}

// mayDo reports whether the speaker can be the subject of an asserting verb.
func (a speaker) mayDo(kind, verb string) bool {
	state := verb == "persuaded" || verb == "unpersuaded" || verb == "convinced"
	if a.class == nobody || a.passive != state {
		return false
	}
	switch a.class {
	case instrument:
		return kind == kindTerm || verb == "states" || verb == "suggests" || verb == "grants" || verb == "granted"
	case court:
		return kind != kindTerm
	case named:
		return kind != kindRuling || verb == "concluded" || verb == "found" || verb == "decided"
	}
	return kind != kindRuling || verb != "holds" && verb != "held" && verb != "thinks"
}

// kindOf is the kind that a verb has in this speaker's mouth.
func (a speaker) kindOf(kind string) string {
	switch {
	case a.class == court:
		return kindRuling
	case a.class == instrument:
		return kindTerm
	case kind == kindRuling:
		return kindClaim
	}
	return kind
}

var (
	courtWord     = regexp.MustCompile(`\b(?:Court|Circuit|Tribunal|Judge|Justice|court|tribunal|arbitrator|Arbitrator|Panel|majority)s?$`)
	instrumentEnd = regexp.MustCompile(`(?:^|[ ,(])((?:(?:The|This|That|These|the|this|that|these|Under|its) )?(?:[A-Z][\pL-]* )*(?:` + instrumentWords + `)(?: \d[\w.()–-]*)?(?: of the (?:[A-Z]\pL+ ?){1,4})?|§§?\d[\w.()–-]*)$`)
	bareNoun      = regexp.MustCompile(`^[a-z]+$`)
	possessiveEnd = regexp.MustCompile(`(?:^|[ ,(])((?:[Tt]he )?` + properName + `’s? (?:attorney general|drafters|auditors?|counsel|expert|experts|insurers?|engineers?))$`)
	roleEnd       = regexp.MustCompile(`(?i)(?:^|[ ,(])((?:the |both |each |neither )?(?:parties|` + roleWords + `|tribunal|arbitrator|district court|court of appeals|court|majority))$`)
	nameEnd       = regexp.MustCompile(`(?:^|[ ,(—])((?:[Tt]he )?` + properName + `)$`)
	pronounEnd    = regexp.MustCompile(`(?:^|[ ,(—“])([Ww]e|[Ii]t)$`)
)

const instrumentWords = `[Cc]ompact|[Aa]greement|[Cc]ontract|[Cc]lause|[Ss]ection|[Aa]rticle|[Ss]chedule|[Aa]nnex|[Ss]tatutes?|Act|` +
	`[Pp]rovisions?|[Ww]arranty|[Pp]olicy|[Tt]erms|[Dd]eed|[Ll]ease`

// actor reads the subject that ends the text before a verb.
func (o *outline) actor(t *parties, i int, left string) speaker {
	whole := strings.TrimRight(left, " ")
	left, a := strip(left)
	if !strings.HasSuffix(left, ",") {
		return o.actorAt(t, i, left, a)
	}
	cut := apposition.FindStringIndex(left)
	if cut == nil && len(left) == len(whole) {
		return speaker{} // "Absent an agreement among the States, disputes …": no subject at all
	}
	if cut != nil {
		if found := o.actorAt(t, i, strings.TrimRight(left[:cut[0]], " "), a); found.class != nobody {
			return found
		}
	}
	return o.actorAt(t, i, strings.TrimRight(left, ", "), a)
}

// actorAt reads the noun phrase at the very end of left.
func (o *outline) actorAt(t *parties, i int, left string, a speaker) speaker {
	switch {
	case a.match(pronounEnd, left):
		return o.pronoun(t, i, left, a)
	case a.match(instrumentEnd, left):
		if bareNoun.MatchString(a.name) {
			return speaker{} // "a compact suggests": any compact, not this one
		}
		a.class = instrument
	case a.match(possessiveEnd, left):
		a.class = named
	case a.match(roleEnd, left):
		a.class = party
	case a.match(nameEnd, left):
		a.class = named
	default:
		return speaker{}
	}
	return o.identify(t, a, left)
}

func (a *speaker) match(re *regexp.Regexp, left string) bool {
	m := re.FindStringSubmatch(left)
	if m == nil {
		return false
	}
	a.name = m[1]
	return true
}

// strip takes adverbs and auxiliaries off the end, noting a negation.
func strip(left string) (string, speaker) {
	var a speaker
	for {
		left = strings.TrimRight(left, " ")
		cut := strings.LastIndexByte(left, ' ')
		word := strings.Trim(left[cut+1:], ",")
		if !has(betweens, word) {
			return left, a
		}
		a.negated = a.negated || word == "not" || word == "never" || word == "no"
		a.passive = a.passive || has(beForms, word)
		left = left[:cut+1]
	}
}

// pronoun finds what "it" stands for: the last party named before it, in this
// sentence or at the head of the one before. "We" is the court in an opinion.
func (o *outline) pronoun(t *parties, i int, left string, a speaker) speaker {
	if strings.EqualFold(a.name, "we") {
		if !o.opinion {
			return speaker{}
		}
		a.name, a.class = "The Court", court
		return a
	}
	text := left
	if name := t.lastNamed(text); name != "" {
		a.name, a.class = name, party
		return a
	}
	if i > 0 && o.sentences[i-1].in == o.sentences[i].in {
		if name := t.leading(o.sentences[i-1].text()); name != "" {
			a.name, a.class = name, party
			return a
		}
	}
	return speaker{}
}

// lastNamed returns the party named last in s, by any of its names.
func (t *parties) lastNamed(s string) string {
	name, at := "", -1
	for _, p := range t.list {
		for _, n := range append([]string{p.Name}, p.Aliases...) {
			if j := strings.LastIndex(s, n); j > at && !strings.HasPrefix(s[j+len(n):], "’") {
				name, at = p.Name, j
			}
		}
	}
	return name
}

// leading returns the party that opens s.
func (t *parties) leading(s string) string {
	s = strings.TrimPrefix(s, "The ")
	for _, p := range t.list {
		for _, n := range append([]string{p.Name}, p.Aliases...) {
			if rest, ok := strings.CutPrefix(s, n); ok && strings.HasPrefix(rest, " ") {
				return p.Name
			}
		}
	}
	return ""
}

// identify gives a speaker its class and the name that the table has for it.
func (o *outline) identify(t *parties, a speaker, left string) speaker {
	before := strings.TrimSuffix(left, a.name)
	if hypothetical.MatchString(before) || preposition.MatchString(before) || hypothetical.MatchString(a.name) {
		return speaker{}
	}
	a.name = dropOpeners(a.name)
	bare := strings.TrimPrefix(strings.TrimPrefix(a.name, "The "), "the ")
	if m := roleBefore.FindStringSubmatch(bare); m != nil {
		bare = bare[len(m[0]):]
	}
	if p := t.byName(bare); p != nil {
		a.name, a.class = p.Name, party
		return a
	}
	switch {
	case bare == "":
		return speaker{}
	case courtWord.MatchString(bare):
		a.class = court
	case a.class == named && !o.isProper(bare):
		return speaker{}
	}
	a.name = capitalise(a.name)
	return a
}

func capitalise(s string) string {
	r := []rune(s)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}
