// Package brief is the reference build service: it owns the record of a matter
// (documents and their text, page by page) and turns it into a Brief.
//
// It owns the two tables of schema record. A document is live from its ingest
// until it is replaced or deleted; only live documents are read by a build. The
// text of a page is normalised once, at ingest, and never changes afterwards: an
// exact quote is a substring of that stored text.
//
// Extraction is by rule, offline and deterministic: the same record gives the
// same frame, byte for byte. Each party, dated statement and assertion carries
// its document, its page and its quote, so that a reader can check it.
//
// The rail knows nothing of this package, and this package knows nothing of the
// rail but the key of a matter and the one row that a producer inserts into the
// outbox, as any foreign producer would.
//
// Not promised: that the rules find everything, that a dated sentence is true,
// or that text is read from scanned images (a page without text stays empty).
package brief
