// Package modeldoc keeps the parts of docs/MODEL.md that tests write: what is found
// there is what was measured, or a test fails.
//
// A part stands between two comments that name it and the package that writes it. Where
// a test is told to rewrite, the part becomes what is wanted. It owns no text outside
// of those comments, and knows nothing of what is in them.
package modeldoc

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// Document is a file with such parts. The tests of a package share one.
type Document struct {
	Path   string // from the folder of the package
	Writer string // the package, as go test is given it

	writing sync.Mutex // held while the file is read and written
}

// Holds fails the test unless the part is as wanted. With rewrite it writes it.
func (d *Document) Holds(t testing.TB, part, want string, rewrite bool) {
	t.Helper()
	d.writing.Lock()
	defer d.writing.Unlock()
	text, err := os.ReadFile(d.Path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+part+": written by go test "+d.Writer+" -rewrite -->\n", "<!-- "+part+": end -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	got, after, ended := strings.Cut(rest, end)
	switch {
	case !found || !ended:
		t.Fatalf("%s has no part between %q and %q", d.Path, begin, end)
	case got == want:
	case !rewrite:
		t.Errorf("%s, %s: %s (go test %s -rewrite writes it)", d.Path, part, firstDifference(want, got), d.Writer)
	default:
		if err := os.WriteFile(d.Path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// firstDifference says where two texts part.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		switch {
		case i >= len(g):
			return fmt.Sprintf("line %d is missing: %s", i+1, w[i])
		case i >= len(w):
			return fmt.Sprintf("line %d is too many: %s", i+1, g[i])
		case w[i] != g[i]:
			return fmt.Sprintf("line %d is %q, want %q", i+1, g[i], w[i])
		}
	}
	return "the same"
}
