package brief

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNormaliseMakesParagraphs(t *testing.T) {
	t.Parallel()
	line := "This line is one of those that fill the whole width of the page"
	cases := []struct {
		name string
		raw  string
		want string
	}{
		{"lines flow", "The hall was\r\nwarm. \r\n", "The hall was warm."},
		{"empty line parts", "One.\n\nTwo.", "One.\n\nTwo."},
		{"short last line parts", line + "\nand ends here.\n" + line, line + " and ends here.\n\n" + line},
		{"soft hyphen joins", "the Okla\x02homa statutes", "the Oklahoma statutes"},
		{"hyphen stays where written elsewhere", "a cross-border right\nno cross\x02border right", "a cross-border right no cross-border right"},
		{"joined word elsewhere wins", "within with in\nwith\x02in", "within with in within"},
		{"compound of law", "under contract\x02law principles", "under contract-law principles"},
		{"visible hyphen at the end of a line", "a long-\nterm lease", "a long-term lease"},
		{"docket number over two lines", "See No. CIV–07–\n0045–HE", "See No. CIV–07–0045–HE"},
		{"caption over an empty line", "ALPHA WATER DISTRICT,\n \nPETITIONER v. BETA\nET AL.\nON WRIT OF CERTIORARI", "ALPHA WATER DISTRICT, PETITIONER v. BETA ET AL.\n\nON WRIT OF CERTIORARI"},
		{"footnotes stand apart", "Text with a note.1\n——————\n1 The note.\n2Another one.", "Text with a note.1\n\n——————\n\n1 The note.\n\n2Another one."},
		{"citation number is no list", "Compact, 83 Stat.\n86. The panel", "Compact, 83 Stat. 86. The panel"},
		{"control characters go", "a\x1b[31mb\u00adc\td", "a[31mbc d"},
		{"nothing", " \n \n", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, normalise([]string{c.raw})[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNormaliseSetsRunningHeadersApart(t *testing.T) {
	t.Parallel()
	pages := []string{"2 Alpha against Beta\nThe text of the page goes on\nand on.", "3 Alpha against Beta\nAnd here as well it goes\non."}
	for _, p := range normalise(pages) {
		head, _, _ := strings.Cut(p, "\n\n")
		if !strings.HasSuffix(head, "Alpha against Beta") {
			t.Errorf("header is not alone: %q", p)
		}
	}
}

func TestNormaliseIsStable(t *testing.T) {
	t.Parallel()
	once := normalise([]string{"The contract\x02law point.\r\nA second line, which is longer than it.\r\n\r\nII\r\nMore."})
	if diff := cmp.Diff(once, normalise(once)); diff != "" {
		t.Error(diff)
	}
}

func TestSplitSentences(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		in   string
		want []string
	}{
		{"case names", "See Texas v. New Mexico, 482 U. S. 124, 128. The Court begins.", []string{"See Texas v. New Mexico, 482 U. S. 124, 128.", "The Court begins."}},
		{"sections", "Under §5.05(b)(1), it may. Pub. L. 346, 69 Stat. 654. These talks ended.", []string{"Under §5.05(b)(1), it may.", "Pub. L. 346, 69 Stat. 654.", "These talks ended."}},
		{"companies", "Ferrum Inc. inspected it. Beta Co. The rest followed.", []string{"Ferrum Inc. inspected it.", "Beta Co.", "The rest followed."}},
		{"footnote number", "It lies there.2 The rest, subbasin 5, does not.", []string{"It lies there.2", "The rest, subbasin 5, does not."}},
		{"closing quote", "It is “unallocated.” That is wrong.", []string{"It is “unallocated.”", "That is wrong."}},
		{"spaced quotes", "It means ‘designated water.’ ” Then it ends.", []string{"It means ‘designated water.’ ”", "Then it ends."}},
		{"ellipsis", "It must . . . begin with . . . The presumption.", []string{"It must . . . begin with . . . The presumption."}},
		{"bracket", "(West 2013). The statutes require it.", []string{"(West 2013).", "The statutes require it."}},
		{"blank page number", "560 U. S., at ___. Once approved, it held.", []string{"560 U. S., at ___.", "Once approved, it held."}},
		{"numbered item", "1. The respondent denies it.", []string{"1. The respondent denies it."}},
		{"decimal", "From 5.1 million to 6.4 million. It grew.", []string{"From 5.1 million to 6.4 million.", "It grew."}},
		{"month", "Act of Dec. 22, 1980, ch. 5. It passed.", []string{"Act of Dec. 22, 1980, ch. 5.", "It passed."}},
		{"unfinished", "One. and two", []string{"One. and two"}},
		{"empty", "", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, s := range splitSentences(c.in) {
				got = append(got, c.in[s[0]:s[1]])
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFindDates(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"On January 11, 2007, it filed":             {"2007-01-11 day"},
		"dated 3rd March 2024":                      {"2024-03-03 day"},
		"Act of Aug. 11, 1955":                      {"1955-08-11 day"},
		"on the 5 day of May 2001":                  {"2001-05-05 day"},
		"at 2024-02-29":                             {"2024-02-29 day"},
		"on February 30, 2024 or 2023-02-29":        {},
		"in November 2021":                          {"2021-11 month"},
		"In 1955, Congress":                         {"1955 year"},
		"From 2000 to 2002, Tarrant":                {"2000..2002 year"},
		"a 1970 engineering report":                 {"1970 year"},
		"to take 310,000 acre feet, in 3000 CFS":    nil,
		"for 2000 tonnes, §1086.1, the 1000 pages":  nil,
		"482 U. S. 124, 2010 WL 2817220":            nil,
		"in 2000 and on 4 April 2001, by June 2002": {"2000 year", "2001-04-04 day", "2002-06 month"},
	}
	for in, want := range cases {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, w := range findDates(in) {
				s := w.date
				if w.until != "" {
					s += ".." + w.until
				}
				got = append(got, s+" "+w.precision)
			}
			if diff := cmp.Diff(strings.Join(want, "|"), strings.Join(got, "|")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
