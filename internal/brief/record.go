package brief

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

//go:embed migrations/*.sql
var migrations embed.FS

//go:embed samples/*.txt
var samples embed.FS

// Migrations is the set that makes and names schema record.
func Migrations() pg.Set {
	return pg.Set{FS: folder(migrations, "migrations"), Schema: "record"}
}

// Samples are the demo's own documents: a dispute between two companies over the
// cooling of a warehouse. They were written for this project.
func Samples() fs.FS { return folder(samples, "samples") }

func folder(root embed.FS, name string) fs.FS {
	sub, err := fs.Sub(root, name)
	if err != nil { // only a name that is no path can fail
		return root
	}
	return sub
}

// Migrate brings schema record to this build's version and returns how many
// migrations ran. conn must be a direct session.
func Migrate(ctx context.Context, conn *pgx.Conn) (int, error) {
	n, err := pg.Migrator{Set: Migrations()}.Up(ctx, conn)
	if err != nil {
		return n, fmt.Errorf("migrate schema record: %w", err)
	}
	return n, nil
}

// ErrSchema says that schema record is not the one that this build works with.
var ErrSchema = errors.New("schema record does not fit")

// CheckSchema returns an ErrSchema with what to do where schema record is missing or
// of another version; other errors are the database's.
func CheckSchema(ctx context.Context, db pg.DB) error {
	err := Migrations().Check(ctx, db)
	var other *pg.SchemaError
	switch {
	case !errors.As(err, &other):
		return err
	case other.Found > other.Max:
		return fmt.Errorf("%w: it is at version %d, newer than this program, which works with %d: install the brief-builder that migrated it",
			ErrSchema, other.Found, other.Max)
	case other.Found == 0:
		return fmt.Errorf("%w: this database has none: run `brief-builder migrate`", ErrSchema)
	}
	return fmt.Errorf("%w: it is at version %d, this program works with %d: run `brief-builder migrate`", ErrSchema, other.Found, other.Max)
}

// MaxRecordBytes is how much text of one matter a build reads at most.
const MaxRecordBytes = 256 << 20

// ErrRecordTooLarge says that a matter has more text than MaxRecordBytes.
var ErrRecordTooLarge = errors.New("record of the matter is too large to build from")

// One statement is one snapshot: the build sees the record of a single instant,
// and no transaction stays open behind it.
const selectRecord = `
SELECT d.document_id, d.name, d.media_type, d.sha256, coalesce(p.text, '')
FROM record.documents d LEFT JOIN record.pages p USING (document_id)
WHERE d.firm_id = $1 AND d.matter_id = $2 AND d.replaced_at IS NULL AND d.deleted_at IS NULL
ORDER BY d.name COLLATE "C", d.document_id, p.page_no`

// Querier reads from the database; a pool or a session.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Build reads the whole live record of a matter and makes its Brief. A matter
// without documents, and one that nobody has heard of, has an empty Brief.
func Build(ctx context.Context, db Querier, key rail.Key) (Frame, error) {
	docs, err := load(ctx, db, key, MaxRecordBytes)
	if err != nil {
		return Frame{}, err
	}
	return assemble(key, docs), nil
}

func load(ctx context.Context, db Querier, key rail.Key, limit int) ([]*document, error) {
	rows, err := db.Query(ctx, selectRecord, key.Firm, key.Matter)
	if err != nil {
		return nil, fmt.Errorf("read record of %s: %w", key, err)
	}
	defer rows.Close()
	var docs []*document
	size := 0
	for rows.Next() {
		next, text := document{}, ""
		var sum []byte
		if err := rows.Scan(&next.id, &next.name, &next.media, &sum, &text); err != nil {
			return nil, fmt.Errorf("read record of %s: %w", key, err)
		}
		if size += len(text); size > limit {
			return nil, fmt.Errorf("read record of %s: %w: more than %d bytes of text", key, ErrRecordTooLarge, limit)
		}
		if len(docs) == 0 || docs[len(docs)-1].id != next.id {
			copy(next.sha256[:], sum)
			docs = append(docs, &next)
		}
		last := docs[len(docs)-1]
		last.pages = append(last.pages, text)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read record of %s: %w", key, err)
	}
	return docs, nil
}
