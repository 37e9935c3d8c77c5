package brief

import "briefrail/internal/rail"

// SchemaVersion names the shape of Frame; BuilderVersion the rules that fill it.
const (
	SchemaVersion  = "brief/1"
	BuilderVersion = "offline-1"
)

// Frame is the Brief of one matter. It holds nothing but what the record says, so
// that the same record gives the same bytes: no time of building, no generation.
type Frame struct {
	Matter     rail.Key    `json:"matter"`
	Title      string      `json:"title"` // "A v. B" where a caption gives it, else empty
	Parties    []Party     `json:"parties"`
	Chronology []Dated     `json:"chronology"` // oldest first
	Assertions []Assertion `json:"assertions"` // in the order of the record
	Documents  []Listed    `json:"documents"`
	Counts     Counts      `json:"counts"`
	BuiltFrom  []Source    `json:"built_from"`
}

// Citation says where a statement stands: the exact words, on one page.
type Citation struct {
	DocumentID rail.UUID `json:"document_id"`
	Document   string    `json:"document"`
	Page       int       `json:"page"`  // 1-based
	Quote      string    `json:"quote"` // verbatim from the stored text of the page
}

// Party is one side of the dispute, or one of several on a side.
type Party struct {
	Name    string     `json:"name"`
	Role    string     `json:"role"`    // petitioner, buyer, …; "party" when the record does not say
	Aliases []string   `json:"aliases"` // other names that the record uses for it
	Cited   []Citation `json:"cited"`
}

// Dated is a statement that the record ties to a date.
type Dated struct {
	Date      string `json:"date"`            // 2013-06-13, 2013-06 or 2013
	Until     string `json:"until,omitempty"` // the last year of a range
	Precision string `json:"precision"`       // day, month or year
	Citation
	Sentence string `json:"sentence,omitempty"` // whole, when a page break cut the quote
}

// Assertion is a sentence in which somebody, or a text with force, claims,
// denies, admits, rules or requires something.
type Assertion struct {
	By      string `json:"by"`
	Kind    string `json:"kind"` // claim, denial, admission, request, ruling, term
	Verb    string `json:"verb"` // as it stands in the quote; "held" under a heading that says so
	Negated bool   `json:"negated,omitempty"`
	Citation
	Sentence string `json:"sentence,omitempty"` // whole, when a page break cut the quote
}

// Listed is a document of the record.
type Listed struct {
	DocumentID rail.UUID `json:"document_id"`
	Name       string    `json:"name"`
	MediaType  string    `json:"media_type"`
	Pages      int       `json:"pages"`
}

// Counts are the lengths of the frame's lists, and the pages that were read.
type Counts struct {
	Documents  int `json:"documents"`
	Pages      int `json:"pages"`
	Parties    int `json:"parties"`
	Chronology int `json:"chronology"`
	Assertions int `json:"assertions"`
}

// Source names one document that the frame was built from, by content.
type Source struct {
	DocumentID rail.UUID `json:"document_id"`
	SHA256     string    `json:"sha256"` // lower-case hexadecimal
}
