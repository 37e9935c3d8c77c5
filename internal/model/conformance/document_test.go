package conformance_test

import (
	"flag"
	"testing"

	"briefrail/internal/model/modeldoc"
)

var rewrite = flag.Bool("rewrite", false, "write the generated part of docs/MODEL.md anew")

// doc is where the tables stand.
var doc = &modeldoc.Document{Path: "../../../docs/MODEL.md", Writer: "./internal/model/conformance"}

// document compares a part of docs/MODEL.md, or writes it.
func document(t *testing.T, part, want string) {
	t.Helper()
	doc.Holds(t, part, want, *rewrite)
}
