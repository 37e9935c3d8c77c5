package brief

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"briefrail/internal/rail"
)

func TestDump(t *testing.T) {
	dir := os.Getenv("DUMP")
	d := os.DirFS(dir)
	r := &Reader{}
	names, err := Names(d)
	if err != nil {
		t.Skip(err)
	}
	var docs []*document
	for _, n := range names {
		doc, err := r.Read(t.Context(), d, n)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, &document{name: n, pages: doc.Pages})
	}
	f := assemble(rail.Key{}, docs)
	fmt.Println("TITLE", f.Title, f.Counts)
	for _, p := range f.Parties {
		fmt.Printf("PARTY %q %s %q\n", p.Name, p.Role, p.Aliases)
		for _, c := range p.Cited {
			fmt.Println("     ", c.Document, c.Page, c.Quote)
		}
	}
	for _, p := range f.Chronology {
		fmt.Printf("DATE %s %s %s p%d: %q  [%s]\n", p.Date, p.Until, p.Document[:2], p.Page, p.Quote, p.Sentence)
	}
	for _, p := range f.Assertions {
		fmt.Printf("ASSERT %s|%s|%s|%v %s p%d: %q  [%s]\n", p.By, p.Kind, p.Verb, p.Negated, p.Document[:2], p.Page, p.Quote, p.Sentence)
	}
	check := func(c Citation) {
		for _, d := range docs {
			if d.name == c.Document && !strings.Contains(d.pages[c.Page-1], c.Quote) {
				t.Errorf("not verbatim: %+v", c)
			}
		}
		if c.Quote == "" {
			t.Errorf("empty: %+v", c)
		}
	}
	for _, p := range f.Chronology {
		check(p.Citation)
	}
	for _, p := range f.Assertions {
		check(p.Citation)
	}
}
