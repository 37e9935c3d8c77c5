package brief

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/rail"
)

// made builds a Brief from texts as if each were a file; \f parts pages.
func made(texts ...string) (Frame, []*document) {
	var docs []*document
	for i, text := range texts {
		docs = append(docs, &document{
			id: rail.UUID{15: byte(i + 1)}, name: fmt.Sprintf("%02d.txt", i+1), media: MediaText,
			pages: normalise(strings.Split(text, "\f")),
		})
	}
	return assemble(rail.Key{Firm: rail.UUID{1}, Matter: rail.UUID{2}}, docs), docs
}

// misquotes returns each citation whose words are not on the page that it names.
func misquotes(f Frame, docs []*document) []string {
	var bad []string
	check := func(c Citation) {
		for _, d := range docs {
			ok := d.id == c.DocumentID && c.Quote != "" && c.Page >= 1 && c.Page <= len(d.pages)
			if ok && strings.Contains(d.pages[c.Page-1], c.Quote) {
				return
			}
		}
		bad = append(bad, fmt.Sprintf("%s page %d: %q", c.Document, c.Page, c.Quote))
	}
	for _, p := range f.Parties {
		for _, c := range p.Cited {
			check(c)
		}
	}
	for _, d := range f.Chronology {
		check(d.Citation)
	}
	for _, a := range f.Assertions {
		check(a.Citation)
	}
	return bad
}

const caption = "ALPHA WATER DISTRICT, PETITIONER v. BETA BOARD ET AL.\n\nPetitioner Alpha Water District (Alpha) sells water. Beta Board (Beta) does not.\n\n"

func TestParties(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		text string
		want []string
	}{
		{"caption with roles", caption, []string{"Alpha Water District=petitioner=Alpha", "Beta Board et al.=respondent=Beta Board,Beta"}},
		{
			"contract", `Signed between Alpha Stores Ltd. ("Alpha" or the "Seller") and Beta Foods GmbH (the "Buyer").`,
			[]string{"Alpha Stores Ltd.=seller=Alpha,Seller", "Beta Foods GmbH=buyer=Buyer"},
		},
		{"respondents here", "It asked the Gamma Resources Board (GRB), respondents here, for a permit.", []string{"Gamma Resources Board=respondent=GRB"}},
		{"other cases and terms are no parties", "See Texas v. New Mexico, 482 U. S. 124, 128 (1987). The Red River Compact (or Compact) and cubic feet per second (CFS) matter.", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, docs := made(c.text)
			var got []string
			for _, p := range f.Parties {
				got = append(got, p.Name+"="+p.Role+"="+strings.Join(p.Aliases, ","))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if bad := misquotes(f, docs); bad != nil {
				t.Error(bad)
			}
		})
	}
}

func TestFullerCaptionNamesTheSameParty(t *testing.T) {
	t.Parallel()
	f, _ := made("ALPHA DISTRICT v. GAMMA ET AL.\n\nText.", "ALPHA DISTRICT, PETITIONER v. DELTA GAMMA ET AL.\n\nText.")
	if len(f.Parties) != 2 || f.Parties[1].Name != "Delta Gamma et al." || len(f.Parties[1].Cited) != 2 {
		t.Errorf("parties: %+v", f.Parties)
	}
	if f.Title != "Alpha District v. Delta Gamma et al." {
		t.Errorf("title %q", f.Title)
	}
}

func TestAssertions(t *testing.T) {
	t.Parallel()
	cases := []struct {
		text string
		want string // by|kind|verb, or nothing
	}{
		{"Alpha contends that the river is shared by all.", "Alpha Water District|claim|contends"},
		{"In response, the petitioner also denies that it ever agreed.", "Alpha Water District|denial|denies"},
		{"Alpha, a state agency, claims that it may take the water.", "Alpha Water District|claim|claims"},
		{"Alpha drew on a report. First, it observes that the flow is low.", "Alpha Water District|claim|observes"},
		{"According to Beta, nothing was ever promised to anybody.", "Beta Board et al.|claim|according to"},
		{"In Beta’s view, the silence of the text settles the matter.", "Beta Board et al.|claim|view"},
		{"Beta does not dispute that the water was taken in spring.", "Beta Board et al.|denial|dispute|not"},
		{"The District Court granted summary judgment for the Board.", "The District Court|ruling|granted"},
		{"The law of Gamma is clear. Gamma’s attorney general has concluded that it binds.", "Gamma’s attorney general|claim|concluded"},
		{"The Compact requires that the flow be kept above a minimum.", "The Compact|term|requires"},
		{"Section 5.05(b)(1), which governs low flow, provides that each may use it.", "Section 5.05(b)(1)|term|provides"},
		{"Beta shall pay the charge within thirty days of the invoice.", "Beta Board et al.|term|shall"},
		{"If Alpha believed that it had a right, it would have said so.", ""},
		{"A driver of Alpha found that the doors of the hall were open.", ""},
		{"The witness said that “Alpha claims the whole of the river”.", ""},
		{"Absent an agreement, disputes over water go to the courts.", ""},
		{"See Alpha v. Gamma, 482 U. S. 124 (noting that Beta argued otherwise).", ""},
		{"Water is required by everybody in the valley, claims aside.", ""},
	}
	for _, c := range cases {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			f, docs := made(caption + c.text)
			got := ""
			for _, a := range f.Assertions {
				got += a.By + "|" + a.Kind + "|" + a.Verb
				if a.Negated {
					got += "|not"
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if bad := misquotes(f, docs); bad != nil {
				t.Error(bad)
			}
		})
	}
}

func TestWeIsTheCourtInAnOpinionOnly(t *testing.T) {
	t.Parallel()
	const text = "We hold that these claims have no merit at all."
	opinion, _ := made("JUSTICE ALPHA delivered the opinion of the Court.\n\n" + text)
	letter, _ := made(text)
	if len(opinion.Assertions) != 1 || opinion.Assertions[0].By != "The Court" || len(letter.Assertions) != 0 {
		t.Errorf("opinion %+v, letter %+v", opinion.Assertions, letter.Assertions)
	}
}

func TestChronology(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		text string
		want []string
	}{
		{"reported cases are no events", "States differ, Oklahoma v. Texas, 258 U. S. 574, 580 (1922), as they do.", nil},
		{"newspapers are no events", "Supplies are strained. See generally Author, A Drought, Herald, Oct. 3, 2011, p. 4.", nil},
		{
			"an act dates what was enacted", "Congress approved it. See Act of Dec. 22, 1980, 94 Stat. 3305.",
			[]string{"1980-12-22: Congress approved it. See Act of Dec. 22, 1980, 94 Stat. 3305."},
		},
		{
			"the decision below", "The District Court granted judgment. See No. CIV–07, 2010 WL 2817220 (WD Okla., July 16, 2010).",
			[]string{"2010-07-16: The District Court granted judgment. See No. CIV–07, 2010 WL 2817220 (WD Okla., July 16, 2010)."},
		},
		{
			"the decision below, year only", "The Tenth Circuit affirmed. 656 F. 3d 1222, 1250 (2011).7 Then more.",
			[]string{"2011: The Tenth Circuit affirmed. 656 F. 3d 1222, 1250 (2011).7"},
		},
		{
			"docket line", "No. 11–889. Argued April 23, 2013—Decided June 13, 2013",
			[]string{"2013-04-23: Argued April 23, 2013—Decided June 13, 2013", "2013-06-13: Argued April 23, 2013—Decided June 13, 2013"},
		},
		{
			"date above an opinion", "[June 13, 2013]\n\nJUSTICE ALPHA delivered the opinion of the Court.",
			[]string{"2013-06-13: [June 13, 2013]\n\nJUSTICE ALPHA delivered the opinion of the Court."},
		},
		{"a bare date says nothing", "3 March 2024\n\nDear all, the hall is warm.", nil},
		{
			"sorted", "It ended in 2003. It began on 4 May 2001 and paused in May 2001.",
			[]string{"2001-05: It began on 4 May 2001 and paused in May 2001.", "2001-05-04: It began on 4 May 2001 and paused in May 2001.", "2003: It ended in 2003."},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, docs := made(c.text)
			var got []string
			for _, d := range f.Chronology {
				got = append(got, d.Date+": "+d.Quote)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if bad := misquotes(f, docs); bad != nil {
				t.Error(bad)
			}
		})
	}
}

func TestPageBreakInASentence(t *testing.T) {
	t.Parallel()
	f, docs := made("2 Header line\n\nThe talks lasted long and ended in the signing of the ex-\n\n——————\n\n1 A note.\f" +
		"3 Header line\n\npected pact in 1978. More text follows here.")
	if len(f.Chronology) != 1 {
		t.Fatalf("chronology %+v", f.Chronology)
	}
	got := f.Chronology[0]
	if got.Page != 2 || got.Quote != "pected pact in 1978." || got.Sentence != "The talks lasted long and ended in the signing of the expected pact in 1978." {
		t.Errorf("got %+v", got)
	}
	if bad := misquotes(f, docs); bad != nil {
		t.Error(bad)
	}
}

func TestEmptyBriefHasNoNulls(t *testing.T) {
	t.Parallel()
	f, _ := made()
	if f.Parties == nil || f.Chronology == nil || f.Assertions == nil || f.Documents == nil || f.BuiltFrom == nil {
		t.Errorf("null lists in %+v", f)
	}
}

func FuzzAssemble(f *testing.F) {
	f.Add(caption + "Alpha argues. It was in 1978 (2001).\f\f1 Note.“ It’s §5. ”\x02")
	f.Add("A v. B\n\nHeld:\n\n1. X (Y)\n\n——————\n\n1See. . (")
	f.Fuzz(func(t *testing.T, text string) {
		if raw, err := textPages([]byte(text)); err == nil {
			got, docs := made(strings.Join(raw, "\f"))
			if bad := misquotes(got, docs); bad != nil {
				t.Error(bad)
			}
		}
	})
}
