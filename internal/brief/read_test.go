package brief

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestTextPages(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, in string
		want     []string
		err      string
	}{
		{"one page", "Hello.", []string{"Hello."}, ""},
		{"form feeds part pages", "One.\fTwo.\f", []string{"One.", "Two."}, ""},
		{"an empty page keeps its number", "One.\f\fThree.", []string{"One.", "", "Three."}, ""},
		{"byte order mark", "\ufeffHello.", []string{"Hello."}, ""},
		{"invalid UTF-8", "ab\xffcd", nil, "invalid UTF-8 at byte 2"},
		{"cut off rune", "ab\xe2\x82", nil, "invalid UTF-8 at byte 2"},
		{"surrogate", "a\xed\xa0\x80", nil, "invalid UTF-8 at byte 1"},
		{"NUL", "abc\x00d", nil, "NUL character at byte 3"},
		{"offset counts the mark", "\ufeffa\xff", nil, "invalid UTF-8 at byte 4"},
		{"nothing", " \n\f", nil, "no text in it"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := textPages([]byte(c.in))
			if c.err != "" {
				if !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	got, err := Names(fstest.MapFS{"b.PDF": {}, "a.txt": {}, ".hidden.txt": {}, "c.docx": {}, "sub/d.txt": {}})
	if diff := cmp.Diff([]string{"a.txt", "b.PDF"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := Names(fstest.MapFS{"c.docx": {}}); err == nil {
		t.Error("a folder without documents was taken")
	}
}

func TestKeptCodeIsOfTheLibraryInUse(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "github.com/tetratelabs/" + strings.Replace(compiler, "-", " ", 1); !strings.Contains(string(mod), want) {
		t.Errorf("go.mod does not require %q: bring the constant compiler in line", want)
	}
}

// TestPDF holds all tests with PDF files, because the sandbox takes seconds to
// compile, and tens of seconds under the race detector.
func TestPDF(t *testing.T) {
	t.Parallel()
	r := &Reader{}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := r.Prepare(t.Context(), []string{"any.pdf"}); err != nil {
		t.Fatal(err)
	}
	t.Run("damaged", func(t *testing.T) {
		files := fstest.MapFS{"broken.pdf": {Data: []byte("%PDF-1.7 and nothing else")}, "empty.pdf": {Data: []byte{}}}
		for name := range files {
			if _, err := r.Read(t.Context(), files, name); !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("real case", func(t *testing.T) { testRealCase(t, r) })
}
