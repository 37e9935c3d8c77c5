package brief

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const roleWords = `petitioners?|respondents?|plaintiffs?|defendants?|appellants?|appellees?|claimants?|applicants?|intervenors?|` +
	`buyers?|sellers?|suppliers?|purchasers?|customers?|contractors?|subcontractors?|employers?|owners?|operators?|carriers?|` +
	`licensors?|licensees?|lessors?|lessees?|landlords?|tenants?|borrowers?|lenders?|insurers?|insureds?`

const properName = `[A-Z][\pL\d&’'-]*\.?(?:(?: (?:of|and|for|the|&|in))? [A-Z][\pL\d&’'-]*\.?)*`

var (
	captionLine  = regexp.MustCompile(`^(.{2,120}?),? (?:v|vs)\. (.{2,160}?)$`)
	captionRole  = regexp.MustCompile(`(?i)^(.*?),? (` + roleWords + `)$`)
	definedTerm  = regexp.MustCompile(`(` + properName + `) \(([^()]{2,80})\)(?:, (` + roleWords + `) here)?`)
	quotedTerm   = regexp.MustCompile(`["“]([A-Z][^"“”]{1,40})["”]`)
	bareTerm     = regexp.MustCompile(`^(?:or |hereinafter |the |collectively, )*([A-Z][\pL\d&’'-]*(?: [A-Z][\pL\d&’'-]*){0,3})$`)
	roleBefore   = regexp.MustCompile(`^(?i:(` + roleWords + `)) `)
	roleOnly     = regexp.MustCompile(`^(?i:the )?(?i:(` + roleWords + `))$`)
	organisation = regexp.MustCompile(`\b(?:Inc|Ltd|Limited|LLC|LLP|plc|Corp|Corporation|Co|Company|GmbH|AG|SE|B\.?V|S\.?A|Cooperative|Co-operative|Partnership|Trust)\.?$`)
	etAl         = regexp.MustCompile(`(?i),? et al\.?$`)
)

// parties is the table of who disputes, with every name the record uses for them.
type parties struct {
	list []*Party
}

// learn reads a document's captions and defined terms. Captions of all documents
// should be learnt before the terms of any, as a term is often a caption's name.
func (t *parties) learnCaptions(o *outline) {
	for _, h := range o.headings {
		m := captionLine.FindStringSubmatch(h.text)
		if m == nil || h.page > 3 || unicode.IsDigit(rune(h.text[0])) {
			continue
		}
		left, leftRole := splitRole(m[1])
		right, rightRole := splitRole(m[2])
		if leftRole == "" {
			leftRole = oppositeRole(rightRole)
		}
		if rightRole == "" {
			rightRole = oppositeRole(leftRole)
		}
		cited := o.doc.cite(h.page, h.text)
		t.add(o.spell(left), leftRole, cited)
		t.add(o.spell(right), rightRole, cited)
	}
}

func splitRole(name string) (string, string) {
	if m := captionRole.FindStringSubmatch(name); m != nil {
		return m[1], singular(m[2])
	}
	return name, ""
}

func singular(role string) string { return strings.TrimSuffix(strings.ToLower(role), "s") }

func oppositeRole(role string) string {
	switch role {
	case "petitioner", "claimant", "applicant":
		return "respondent"
	case "plaintiff":
		return "defendant"
	case "appellant":
		return "appellee"
	case "respondent":
		return "petitioner"
	case "defendant":
		return "plaintiff"
	case "appellee":
		return "appellant"
	}
	return ""
}

// spell writes a name set in capitals as the document's prose writes it, or else
// with capitals at the head of each word.
func (o *outline) spell(name string) string {
	if strings.IndexFunc(strings.ReplaceAll(name, " v. ", ""), unicode.IsLower) >= 0 {
		return name
	}
	stem := etAl.ReplaceAllString(name, "")
	out := titleCase(stem)
	for _, p := range o.passages {
		if i := strings.Index(strings.ToUpper(p.text), stem); i >= 0 && i+len(stem) <= len(p.text) {
			if found := p.text[i : i+len(stem)]; strings.EqualFold(found, stem) && found != stem {
				out = found
				break
			}
		}
	}
	return out + strings.ToLower(etAl.FindString(name))
}

func titleCase(s string) string {
	words := strings.Fields(s)
	for i, w := range words {
		low := strings.ToLower(w)
		switch {
		case i > 0 && smallWord(low):
			words[i] = low
		case low == "gmbh":
			words[i] = "GmbH"
		case low == "llc" || low == "llp" || low == "usa":
		default:
			r := []rune(low)
			r[0] = unicode.ToUpper(r[0])
			words[i] = string(r)
		}
	}
	return strings.Join(words, " ")
}

// learnTerms reads phrases that name a party and give it a short name:
// "Petitioner Tarrant Regional Water District (Tarrant)".
func (t *parties) learnTerms(o *outline) {
	for _, s := range o.sentences {
		text := s.text()
		for _, m := range definedTerm.FindAllStringSubmatchIndex(text, -1) {
			g := groups(text, m)
			page, quote, _ := s.in.quoteAt(s.start, s.end, s.start+m[2])
			t.learnTerm(g[1], g[2], g[3], o.doc.cite(page, quote))
		}
	}
}

func (t *parties) learnTerm(name, inner, roleAfter string, cited Citation) {
	role := singular(roleAfter)
	name = lastOfTwo(dropStarters(name))
	if m := roleBefore.FindStringSubmatch(name); m != nil {
		name, role = name[len(m[0]):], singular(m[1])
	}
	aliases := termsIn(inner)
	for _, a := range aliases {
		if m := roleOnly.FindStringSubmatch(a); m != nil && role == "" {
			role = singular(m[1])
		}
	}
	known := t.find(name)
	if len(aliases) == 0 || known == nil && role == "" && !organisation.MatchString(name) {
		return
	}
	p := t.add(name, role, cited)
	for _, a := range aliases {
		p.alias(a)
	}
}

// lastOfTwo takes the second of two organisations joined by "and".
func lastOfTwo(name string) string {
	if i := strings.LastIndex(name, " and "); i > 0 && organisation.MatchString(name[:i]) {
		return name[i+len(" and "):]
	}
	return name
}

func termsIn(inner string) []string {
	var out []string
	for _, m := range quotedTerm.FindAllStringSubmatch(inner, -1) {
		out = append(out, m[1])
	}
	if m := bareTerm.FindStringSubmatch(inner); m != nil && len(out) == 0 {
		out = append(out, m[1])
	}
	return out
}

// add finds or makes the party of that name and notes the citation.
func (t *parties) add(name, role string, cited Citation) *Party {
	p := t.find(name)
	if p == nil {
		p = &Party{Name: name, Aliases: []string{}}
		if len(t.list) < maxParties {
			t.list = append(t.list, p)
		}
	}
	if len(name) > len(p.Name) {
		name, p.Name = p.Name, name
	}
	p.alias(name)
	if p.Role == "" {
		p.Role = role
	}
	if !slices.Contains(p.Cited, cited) && len(p.Cited) < maxCited {
		p.Cited = append(p.Cited, cited)
	}
	return p
}

// Bounds against documents that are made to be hard: parties of a matter, places
// cited for one (the first ones), and its other names.
const (
	maxParties = 200
	maxCited   = 5
	maxAliases = 20
)

func (p *Party) alias(name string) {
	if name != p.Name && len(p.Aliases) < maxAliases && !slices.Contains(p.Aliases, name) {
		p.Aliases = append(p.Aliases, name)
	}
}

// find returns the party that goes by name, or one whose fuller name ends in it
// ("Herrmann et al." and "Rudolf John Herrmann et al.").
func (t *parties) find(name string) *Party {
	for _, p := range t.list {
		if p.Name == name || slices.Contains(p.Aliases, name) {
			return p
		}
	}
	stem := etAl.ReplaceAllString(name, "")
	for _, p := range t.list {
		full := etAl.ReplaceAllString(p.Name, "")
		if strings.EqualFold(full, stem) || etAl.MatchString(name) && etAl.MatchString(p.Name) &&
			(strings.HasSuffix(full, " "+stem) || strings.HasSuffix(stem, " "+full)) {
			return p
		}
	}
	return nil
}

// title is "A v. B" for the first party and the first one across from it.
func (t *parties) title() string {
	if len(t.list) < 2 {
		return ""
	}
	return t.list[0].Name + " v. " + t.list[1].Name
}

// final returns the table as the frame holds it, a party without a role as such.
func (t *parties) final() []Party {
	out := make([]Party, 0, len(t.list))
	for _, p := range t.list {
		if p.Role == "" {
			p.Role = "party"
		}
		out = append(out, *p)
	}
	return out
}

// dropStarters cuts words off the head of a name that only open its sentence.
func dropStarters(name string) string {
	for {
		first, rest, ok := strings.Cut(name, " ")
		if !ok || !has(starters, strings.Trim(first, ",")) {
			return name
		}
		name = rest
	}
}
