package brief

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"briefrail/internal/rail"
)

// readAll reads a folder as ingest does, without a database.
func readAll(t *testing.T, r *Reader, fsys fs.FS) []*document {
	t.Helper()
	names, err := Names(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var docs []*document
	for i, n := range names {
		d, err := r.Read(t.Context(), fsys, n)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, &document{id: rail.UUID{15: byte(i + 1)}, name: d.Name, media: d.MediaType, sha256: d.SHA256, pages: d.Pages})
	}
	return docs
}

// testRealCase builds a Brief of a case of the Supreme Court from its three PDFs.
// The files are not part of the project: RAIL_TEST_DATA names the folder that
// holds tarrant-v-herrmann.
func testRealCase(t *testing.T, r *Reader) {
	data := os.Getenv("RAIL_TEST_DATA")
	if data == "" {
		t.Skip("RAIL_TEST_DATA is not set: it names the folder with tarrant-v-herrmann, three public PDFs that are not part of this repository")
	}
	docs := readAll(t, r, os.DirFS(data+"/tarrant-v-herrmann"))
	f := assemble(rail.Key{}, docs)
	if bad := misquotes(f, docs); bad != nil {
		t.Errorf("%d quotes are not on their page: %q", len(bad), bad[0])
	}
	if f.Counts.Chronology < 10 || f.Counts.Assertions < 20 {
		t.Errorf("%d dated statements, %d assertions; want at least 10 and 20", f.Counts.Chronology, f.Counts.Assertions)
	}
	wantParty(t, f, "Tarrant Regional Water District", "petitioner")
	wantParty(t, f, "Herrmann et al.", "respondent")
	wantParty(t, f, "Oklahoma Water Resources Board", "respondent")
	if len(f.Parties) != 3 {
		t.Errorf("parties that are none: %+v", f.Parties)
	}
	for _, want := range []string{"1955-08-11", "1978", "1980-12-22", "2007", "2009-11-18", "2010-07-16", "2011", "2013-04-23", "2013-06-13"} {
		if !slices.ContainsFunc(f.Chronology, func(d Dated) bool { return d.Date == want }) {
			t.Errorf("nothing dated %s", want)
		}
	}
	for _, d := range f.Chronology {
		if d.Date < "1955" || d.Date > "2013-06-13" {
			t.Errorf("a date outside of the matter: %s %q", d.Date, d.Quote)
		}
	}
	by := map[string]int{}
	for _, a := range f.Assertions {
		by[a.By]++
	}
	if by["Tarrant Regional Water District"] < 20 || by["Oklahoma Water Resources Board"] < 4 || by["The Court"] < 8 {
		t.Errorf("who asserts: %v", by)
	}
}

func wantParty(t *testing.T, f Frame, name, role string) {
	t.Helper()
	for _, p := range f.Parties {
		if (p.Name == name || slices.Contains(p.Aliases, name)) && p.Role == role && len(p.Cited) > 0 {
			return
		}
	}
	t.Errorf("no %s %q among %+v", role, name, f.Parties)
}

func TestSamples(t *testing.T) {
	t.Parallel()
	docs := readAll(t, &Reader{}, Samples())
	f := assemble(rail.Key{}, docs)
	if bad := misquotes(f, docs); bad != nil {
		t.Errorf("%d quotes are not on their page: %q", len(bad), bad[0])
	}
	if len(docs) != 3 || len(f.Parties) != 2 || f.Counts.Chronology < 20 || f.Counts.Assertions < 30 {
		t.Errorf("%d documents, counts %+v", len(docs), f.Counts)
	}
	wantParty(t, f, "Halden Dairy Cooperative", "claimant")
	wantParty(t, f, "Northgate Cold Stores Ltd.", "respondent")
	if want := "Halden Dairy Cooperative v. Northgate Cold Stores Ltd."; f.Title != want {
		t.Errorf("title %q, want %q", f.Title, want)
	}
	for _, d := range docs {
		if n := len(d.pages); n < 1 || n > 2 || !strings.HasSuffix(d.name, ".txt") {
			t.Errorf("%s has %d pages", d.name, n)
		}
	}
}
