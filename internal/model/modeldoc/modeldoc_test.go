package modeldoc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"briefrail/internal/model/modeldoc"
)

// told is a test that keeps what it was told, and goes on.
type told struct {
	testing.TB
	said string
}

func (d *told) Helper()                      {}
func (d *told) Errorf(form string, a ...any) { d.said += fmt.Sprintf(form, a...) }

const text = `before
<!-- a: written by go test ./x -rewrite -->
one
two
<!-- a: end -->
between
<!-- b: written by go test ./x -rewrite -->
<!-- b: end -->
after
`

func document(t *testing.T) *modeldoc.Document {
	t.Helper()
	d := &modeldoc.Document{Path: filepath.Join(t.TempDir(), "doc.md"), Writer: "./x"}
	if err := os.WriteFile(d.Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

func read(t *testing.T, d *modeldoc.Document) string {
	t.Helper()
	now, err := os.ReadFile(d.Path)
	if err != nil {
		t.Fatal(err)
	}
	return string(now)
}

// What differs is said with its place, and written only where that is asked for.
func TestHolds(t *testing.T) {
	t.Parallel()
	for want, says := range map[string]string{
		"one\ntwo\n":        "",
		"one\nzwei\n":       `line 2 is "two", want "zwei"`,
		"one\ntwo\nthree\n": `line 3 is "", want "three"`,
		"one":               `line 2 is too many: two`,
		"one\ntwo\n\nmore":  `line 4 is missing: more`,
	} {
		d := document(t)
		judge := &told{TB: t}
		d.Holds(judge, "a", want, false)
		if says == "" && judge.said != "" || !strings.Contains(judge.said, says) || read(t, d) != text {
			t.Errorf("%q: says %q, want %q; the file is %q", want, judge.said, says, read(t, d))
		}
		judge.said = ""
		d.Holds(judge, "a", want, true)
		if now := read(t, d); judge.said != "" || now != strings.Replace(text, "one\ntwo\n", want, 1) {
			t.Errorf("%q is written as %q, %q", want, now, judge.said)
		}
	}
}

// Tests that write at once lose nothing of each other.
func TestManyWriteAtOnce(t *testing.T) {
	t.Parallel()
	d := document(t)
	var all sync.WaitGroup
	for part, want := range map[string]string{"a": "A\n", "b": "B\n"} {
		all.Go(func() {
			for i := range 50 {
				d.Holds(t, part, strings.Repeat(want, i%2+1), true)
			}
		})
	}
	all.Wait()
	want := strings.Replace(text, "one\ntwo\n", "A\nA\n", 1)
	want = strings.Replace(want, "<!-- b: end", "B\nB\n<!-- b: end", 1)
	if now := read(t, d); now != want {
		t.Errorf("left is %q, want %q", now, want)
	}
}
