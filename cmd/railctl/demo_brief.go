package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"briefrail/internal/brief"
	"briefrail/internal/frames"
)

// showBrief prints some of the landed frame with its citations, and checks every
// quote of it against the page that it cites.
func (d *demo) showBrief(ctx context.Context) error {
	stored, ok, err := frames.Current(ctx, d.stage.pool, d.key)
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("the job says that a frame has landed, but there is none")
	}
	var f brief.Frame
	if err := json.Unmarshal(stored.JSON, &f); err != nil {
		return fmt.Errorf("read the frame of generation %d: %w", stored.Generation, err)
	}
	quotes, bad := d.misquotes(f)
	d.screen.check(bad == 0, "%d of %s stand word for word on the page they cite", quotes-bad, count(quotes, "quote"))
	d.printParties(f)
	d.printDated(f)
	d.printAssertions(f)
	return nil
}

func (d *demo) misquotes(f brief.Frame) (quotes, bad int) {
	look := func(c brief.Citation) {
		quotes++
		pages := d.pages[c.DocumentID]
		if c.Quote == "" || c.Page < 1 || c.Page > len(pages) || !strings.Contains(pages[c.Page-1], c.Quote) {
			bad++
		}
	}
	for _, p := range f.Parties {
		for _, c := range p.Cited {
			look(c)
		}
	}
	for _, c := range f.Chronology {
		look(c.Citation)
	}
	for _, a := range f.Assertions {
		look(a.Citation)
	}
	return quotes, bad
}

func (d *demo) printParties(f brief.Frame) {
	s := d.screen
	s.line("")
	s.line("  %s", s.paint(styleBold, cut("The Brief  "+oneLine(f.Title), s.text()-2)))
	s.line("  %s", count(len(f.Parties), "party"))
	for _, p := range f.Parties[:min(4, len(f.Parties))] {
		d.printItem(p.Name+", "+p.Role, first(p.Cited))
	}
}

func (d *demo) printDated(f brief.Frame) {
	s := d.screen
	s.line("  %s%s", count(len(f.Chronology), "dated statement"), some(len(f.Chronology)))
	for _, i := range spread(len(f.Chronology), 3) {
		c := f.Chronology[i]
		d.printItem(c.Date, c.Citation)
	}
}

// printAssertions shows one of each kind first: they are most unlike.
func (d *demo) printAssertions(f brief.Frame) {
	s := d.screen
	s.line("  %s%s", count(len(f.Assertions), "assertion"), some(len(f.Assertions)))
	seen, shown := map[string]bool{}, 0
	for _, a := range f.Assertions {
		if seen[a.Kind] || shown == 3 {
			continue
		}
		seen[a.Kind] = true
		shown++
		d.printItem(a.Kind+" by "+a.By, a.Citation)
	}
}

// printItem is one finding with the exact words that it rests on.
func (d *demo) printItem(head string, c brief.Citation) {
	s := d.screen
	where := fmt.Sprintf("%s, page %d", c.Document, c.Page)
	s.line("    %s  %s", s.paint(styleWork, cut(oneLine(head), s.text()-8-utf8.RuneCountInString(where))), s.paint(styleDim, oneLine(where)))
	for _, l := range wrap("“"+c.Quote+"”", s.text()-6) {
		s.line("      %s", l)
	}
}

func first(cited []brief.Citation) brief.Citation {
	if len(cited) == 0 {
		return brief.Citation{}
	}
	return cited[0]
}

// spread picks at most want of n places, from the first to the last.
func spread(n, want int) (places []int) {
	if n <= want {
		want = n
	}
	for i := range want {
		places = append(places, i*(n-1)/max(1, want-1))
	}
	return places
}

func some(n int) string {
	if n > 3 {
		return ", among them"
	}
	return ""
}
