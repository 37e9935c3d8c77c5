package conformance_test

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the generated part of docs/MODEL.md anew")

// writing is held while the document is read and written.
var writing sync.Mutex

// document compares a part of docs/MODEL.md, or writes it.
func document(t *testing.T, part, want string) {
	t.Helper()
	writing.Lock()
	defer writing.Unlock()
	const path = "../../../docs/MODEL.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+part+": written by go test ./internal/model/conformance -rewrite -->\n", "<!-- "+part+": end -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no part between %q and %q", path, begin, end)
	}
	if *rewrite && got != want {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s, %s (-want +got; go test ./internal/model/conformance -rewrite writes it):\n%s", path, part, d)
	}
}
