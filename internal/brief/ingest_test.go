package brief

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

func newDB(t *testing.T) *pgtest.DB {
	t.Helper()
	return pgtest.NewWith(t, pgtest.Ops(), Migrations())
}

func newKey() rail.Key { return rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()} }

// facts returns the names of a matter's facts in the order of their commits.
func facts(t *testing.T, pool *pgxpool.Pool, key rail.Key) []string {
	t.Helper()
	var names []string
	err := pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(event_name ORDER BY seq), '{}') FROM ops.domain_event_outbox
		WHERE firm_id = $1 AND matter_id = $2`, key.Firm, key.Matter).Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func outcomes(all []Ingested) string {
	var out []string
	for _, d := range all {
		out = append(out, d.Outcome)
	}
	return strings.Join(out, " ")
}

func TestIngestIsOneFactADocument(t *testing.T) {
	t.Parallel()
	db, key := newDB(t), newKey()
	o := IngestOptions{NewMatter: true, Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	first, err := Ingest(t.Context(), db.Pool, key, Samples(), o)
	if err != nil || outcomes(first) != "added added added" {
		t.Fatalf("%s, %v", outcomes(first), err)
	}
	again, err := Ingest(t.Context(), db.Pool, key, Samples(), o)
	if err != nil || outcomes(again) != "present present present" {
		t.Fatalf("%s, %v", outcomes(again), err)
	}
	want := []string{"matter.created", "document.uploaded", "document.uploaded", "document.uploaded"}
	if diff := cmp.Diff(want, facts(t, db.Pool, key)); diff != "" {
		t.Error(diff)
	}
	for i := range first {
		if first[i].DocumentID != again[i].DocumentID || first[i].EventID.IsZero() || !again[i].EventID.IsZero() {
			t.Errorf("first %+v, again %+v", first[i], again[i])
		}
	}
	var traced int
	err = db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM ops.domain_event_outbox o JOIN record.documents d
		ON o.attributes->>'document_id' = d.document_id::text WHERE traceparent = $1`, o.Traceparent).Scan(&traced)
	if err != nil || traced != 3 {
		t.Errorf("%d facts with trace and document, %v", traced, err)
	}
}

func TestOneBadFileDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	db, key := newDB(t), newKey()
	files := fstest.MapFS{"a.txt": {Data: []byte("Good.")}, "b.txt": {Data: []byte("b\x00d")}, "c.txt": {Data: []byte("Good too.")}, "d\n.txt": {Data: []byte("x")}}
	done := 0
	got, err := Ingest(t.Context(), db.Pool, key, files, IngestOptions{Done: func(Ingested) { done++ }})
	if !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "b.txt") || outcomes(got) != "added added" || done != 2 {
		t.Errorf("%s, %d done, %v", outcomes(got), done, err)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	db, key := newDB(t), newKey()
	put := func(text string) string {
		files := fstest.MapFS{"a.txt": {Data: []byte(text)}}
		got, err := Ingest(t.Context(), db.Pool, key, files, IngestOptions{Replace: true})
		if err != nil {
			t.Fatal(err)
		}
		return outcomes(got)
	}
	// The first text comes back at the end: after a replacement it is a new document.
	if got := put("One.") + " " + put("Two.") + " " + put("Two.") + " " + put("One."); got != "added replaced present replaced" {
		t.Errorf("outcomes %s", got)
	}
	f, err := Build(t.Context(), db.Pool, key)
	if err != nil || f.Counts.Documents != 1 {
		t.Errorf("%+v, %v", f.Counts, err)
	}
	want := []string{"document.uploaded", "document.replaced", "document.replaced"}
	if diff := cmp.Diff(want, facts(t, db.Pool, key)); diff != "" {
		t.Error(diff)
	}
}

func TestDocumentAndFactAreOneTransaction(t *testing.T) {
	t.Parallel()
	db, key := newDB(t), newKey()
	if _, err := db.Pool.Exec(t.Context(), `ALTER TABLE ops.domain_event_outbox ADD CONSTRAINT no_more CHECK (false) NOT VALID`); err != nil {
		t.Fatal(err)
	}
	got, err := Ingest(t.Context(), db.Pool, key, Samples(), IngestOptions{})
	if pg.Constraint(err) != "no_more" || len(got) != 0 {
		t.Fatalf("%v, %v", got, err)
	}
	var rows int
	if err := db.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM record.documents) + (SELECT count(*) FROM record.pages)`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows without a fact, %v", rows, err)
	}
}

func TestBuildFromTheRecord(t *testing.T) {
	t.Parallel()
	db, key := newDB(t), newKey()
	if _, err := Ingest(t.Context(), db.Pool, key, Samples(), IngestOptions{}); err != nil {
		t.Fatal(err)
	}
	other := rail.Key{Firm: rail.NewUUID(), Matter: key.Matter} // a matter id alone is no key
	if _, err := Ingest(t.Context(), db.Pool, other, fstest.MapFS{"x.txt": {Data: []byte("Alien.")}}, IngestOptions{}); err != nil {
		t.Fatal(err)
	}
	f, err := Build(t.Context(), db.Pool, key)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Build(t.Context(), db.Pool, key)
	if diff := cmp.Diff(f, again); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if f.Counts.Documents != 3 || len(f.BuiltFrom) != 3 || f.Counts.Pages != 6 {
		t.Errorf("counts %+v", f.Counts)
	}
	storedVerbatim(t, db.Pool, f)
}

// storedVerbatim asks the database itself whether each quote stands on its page.
func storedVerbatim(t *testing.T, pool *pgxpool.Pool, f Frame) {
	t.Helper()
	var all []Citation
	for _, d := range f.Chronology {
		all = append(all, d.Citation)
	}
	for _, a := range f.Assertions {
		all = append(all, a.Citation)
	}
	for _, p := range f.Parties {
		all = append(all, p.Cited...)
	}
	for _, c := range all {
		var found bool
		err := pool.QueryRow(t.Context(), `SELECT position($3 IN text) > 0 FROM record.pages WHERE document_id = $1 AND page_no = $2`,
			c.DocumentID, c.Page, c.Quote).Scan(&found)
		if err != nil || !found {
			t.Errorf("%+v is not in the record: %v", c, err)
		}
	}
}

func TestUnknownMatterIsEmpty(t *testing.T) {
	t.Parallel()
	f, err := Build(t.Context(), newDB(t).Pool, newKey())
	if err != nil || f.Counts != (Counts{}) {
		t.Errorf("%+v, %v", f.Counts, err)
	}
}

func TestRecordTooLarge(t *testing.T) {
	t.Parallel()
	db, key := newDB(t), newKey()
	if _, err := Ingest(t.Context(), db.Pool, key, Samples(), IngestOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t.Context(), db.Pool, key, 1000); !errors.Is(err, ErrRecordTooLarge) {
		t.Error(err)
	}
}

func TestPagesNeverChange(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	if _, err := Ingest(t.Context(), db.Pool, newKey(), Samples(), IngestOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), `UPDATE record.pages SET text = 'altered'`); pg.Constraint(err) != "page_is_immutable" {
		t.Error(err)
	}
}

func TestMigrateTwice(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn, err := pg.Connect(t.Context(), pg.Options{DSN: db.DSN})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, want := range []int{1, 0} {
		if n, err := Migrate(t.Context(), conn); n != want || err != nil {
			t.Errorf("%d applied, want %d: %v", n, want, err)
		}
	}
}
