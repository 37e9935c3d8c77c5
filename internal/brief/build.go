package brief

import (
	"encoding/hex"

	"briefrail/internal/rail"
)

// document is one live document of the record, with the text of its pages.
type document struct {
	id     rail.UUID
	name   string
	media  string
	sha256 [32]byte
	pages  []string
}

func (d *document) cite(page int, quote string) Citation {
	return Citation{DocumentID: d.id, Document: d.name, Page: page, Quote: quote}
}

// assemble makes the Brief of a matter out of its documents, in their order. It
// is a pure function: the clock, the run and the machine leave no mark.
func assemble(key rail.Key, docs []*document) Frame {
	f := emptyFrame(key)
	outlines := make([]*outline, len(docs))
	for i, d := range docs {
		outlines[i] = takeApart(d)
		f.list(d)
	}
	t := learnParties(outlines)
	for _, o := range outlines {
		f.Chronology = append(f.Chronology, o.chronology()...)
		f.Assertions = append(f.Assertions, o.assertions(t)...)
	}
	sortDated(f.Chronology)
	f.Title, f.Parties = t.title(), t.final()
	f.Counts.Parties, f.Counts.Chronology, f.Counts.Assertions = len(f.Parties), len(f.Chronology), len(f.Assertions)
	return f
}

// emptyFrame has no null lists, so that a reader need not tell null from empty.
func emptyFrame(key rail.Key) Frame {
	return Frame{
		Matter: key, Parties: []Party{}, Chronology: []Dated{}, Assertions: []Assertion{},
		Documents: []Listed{}, BuiltFrom: []Source{},
	}
}

func (f *Frame) list(d *document) {
	f.Documents = append(f.Documents, Listed{DocumentID: d.id, Name: d.name, MediaType: d.media, Pages: len(d.pages)})
	f.BuiltFrom = append(f.BuiltFrom, Source{DocumentID: d.id, SHA256: hex.EncodeToString(d.sha256[:])})
	f.Counts.Documents++
	f.Counts.Pages += len(d.pages)
}

// learnParties reads all captions before any term, as a term is often short for a
// caption's name.
func learnParties(outlines []*outline) *parties {
	t := &parties{}
	for _, o := range outlines {
		t.learnCaptions(o)
	}
	for _, o := range outlines {
		t.learnTerms(o)
	}
	return t
}
