package pg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/tern/v2/migrate"
)

// Set is the migrations of one schema: files NNN_name.sql in the root of FS,
// numbered from 1 without gaps. A file may hold many statements; what follows a
// line "---- create above / drop below ----" would undo them and is not used by
// this package. Files are run as they are: tern's templates ({{ }}) are refused,
// because the text that is checked, printed and run must be one text.
//
// The schema itself and the two bookkeeping tables are made by the Migrator, so
// that a file which creates the schema must say "if not exists".
type Set struct {
	FS     fs.FS
	Schema string // lower-case letters, digits and underscores
	// Lo and Hi are the versions that this program works with. Zero means the
	// newest version of FS.
	Lo, Hi int
}

// Migration is one file of a Set and what the database knows of it.
type Migration struct {
	Version   int
	Name      string     // file name
	Applied   bool       // the schema is at this version or a later one
	AppliedAt *time.Time // nil where it is not applied or its checksum was never recorded
	Changed   bool       // applied from another text than the file's present one
}

// ErrChanged says that a migration was edited after it had been applied.
var ErrChanged = errors.New("applied migration has changed")

// file is one migration as text.
type file struct {
	version        int
	name, up, down string
	whole          string
	sha256         string
}

const separator = "---- create above / drop below ----"

var schemaName = regexp.MustCompile(`\A[a-z_][a-z0-9_]{0,62}\z`)

// files reads and checks the whole set; the error names the file.
func (s Set) files() ([]file, error) {
	if !schemaName.MatchString(s.Schema) {
		return nil, fmt.Errorf("%.70q is not a schema name", s.Schema)
	}
	names, err := migrate.FindMigrations(s.FS)
	if err != nil {
		return nil, fmt.Errorf("migrations of schema %s: %w", s.Schema, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("migrations of schema %s: no files", s.Schema)
	}
	out := make([]file, len(names))
	for i, name := range names {
		if out[i], err = s.read(i+1, name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s Set) read(version int, name string) (file, error) {
	b, err := fs.ReadFile(s.FS, name)
	if err != nil {
		return file{}, fmt.Errorf("migration %s: %w", name, err)
	}
	// A checkout with other line ends is the same migration.
	text := strings.ReplaceAll(string(b), "\r\n", "\n")
	if strings.Contains(text, "{{") {
		return file{}, fmt.Errorf("migration %s contains {{, which tern would read as a template", name)
	}
	sum := sha256.Sum256([]byte(text))
	up, down, _ := strings.Cut(text, separator)
	f := file{
		version: version, name: name, whole: text, sha256: hex.EncodeToString(sum[:]),
		up: strings.TrimSpace(up), down: strings.TrimSpace(down),
	}
	if f.up == "" {
		return file{}, fmt.Errorf("migration %s is empty", name)
	}
	return f, nil
}

func (s Set) table(name string) string { return ident(s.Schema) + "." + ident(name) }

// Newest is the version of the last file.
func (s Set) Newest() (int, error) {
	files, err := s.files()
	return len(files), err
}

// Version is the version of a schema: the number of the last migration applied, 0
// when there was none. It runs two statements.
func Version(ctx context.Context, db DB, schema string) (int, error) {
	table := Set{Schema: schema}.table("schema_version")
	var exists bool
	if err := db.QueryRow(ctx, `select to_regclass($1) is not null`, table).Scan(&exists); err != nil {
		return 0, fmt.Errorf("version of schema %s: %w", schema, err)
	}
	if !exists {
		return 0, nil
	}
	var v int
	if err := db.QueryRow(ctx, `select version from `+table).Scan(&v); err != nil {
		return 0, fmt.Errorf("version of schema %s: %w", schema, err)
	}
	return v, nil
}

// Status lists the migrations of the set, oldest first, without changing anything.
func (s Set) Status(ctx context.Context, db DB) ([]Migration, error) {
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	version, err := Version(ctx, db, s.Schema)
	if err != nil {
		return nil, err
	}
	known, err := s.recorded(ctx, db)
	if err != nil {
		return nil, err
	}
	out := make([]Migration, len(files))
	for i, f := range files {
		out[i] = Migration{Version: f.version, Name: f.name, Applied: f.version <= version}
		if r, ok := known[f.version]; ok && out[i].Applied {
			out[i].AppliedAt, out[i].Changed = &r.at, r.sha256 != f.sha256
		}
	}
	return out, nil
}

type record struct {
	sha256 string
	at     time.Time
}

// recorded reads the checksum table, which may not exist yet.
func (s Set) recorded(ctx context.Context, db DB) (map[int]record, error) {
	table := s.table("schema_checksums")
	var exists bool
	if err := db.QueryRow(ctx, `select to_regclass($1) is not null`, table).Scan(&exists); err != nil || !exists {
		return nil, err
	}
	rows, err := db.Query(ctx, `select version, sha256, applied_at from `+table)
	if err != nil {
		return nil, fmt.Errorf("checksums of schema %s: %w", s.Schema, err)
	}
	defer rows.Close()
	out := map[int]record{}
	for rows.Next() {
		var v int
		var r record
		if err := rows.Scan(&v, &r.sha256, &r.at); err != nil {
			return nil, fmt.Errorf("checksums of schema %s: %w", s.Schema, err)
		}
		out[v] = r
	}
	return out, rows.Err()
}

// verify compares the database with files and returns its version. A version
// without a checksum was applied by another tool; there is nothing to compare.
func (s Set) verify(ctx context.Context, db DB, files []file) (int, error) {
	list, err := s.Status(ctx, db)
	if err != nil {
		return 0, err
	}
	for _, m := range list {
		if m.Changed {
			return 0, fmt.Errorf("%w: %s was applied to schema %s on %s from another text; restore the file and put the change into a new one",
				ErrChanged, m.Name, s.Schema, m.AppliedAt.UTC().Format(time.DateTime))
		}
	}
	v, err := Version(ctx, db, s.Schema)
	if err == nil && v > len(files) {
		err = &SchemaError{Schema: s.Schema, Found: v, Min: 0, Max: len(files)}
	}
	return v, err
}

// Print is the SQL of one version with its bookkeeping, in one transaction, for
// people who apply it with a tool of their own. Up accepts the result as its own.
func (s Set) Print(version int) (string, error) {
	files, err := s.files()
	if err != nil {
		return "", err
	}
	if version < 1 || version > len(files) {
		return "", fmt.Errorf("schema %s has versions 1 to %d, not %d", s.Schema, len(files), version)
	}
	f := files[version-1]
	return fmt.Sprintf("-- schema %s, version %d: %s\nbegin;\n%s%s\n;\n%s\nupdate %s set version = %d where version = %d;\ncommit;\n",
		s.Schema, version, f.name, s.bookkeeping(version), f.up, s.recordSQL(f), s.table("schema_version"), version, version-1), nil
}

// bookkeeping makes the schema and its two tables, ahead of the first version.
func (s Set) bookkeeping(version int) string {
	if version != 1 {
		return ""
	}
	return fmt.Sprintf("create schema if not exists %s;\ncreate table if not exists %s;\ncreate table if not exists %s (version int4 not null);\ninsert into %s (version) values (0);\n",
		ident(s.Schema), s.checksumTable(), s.table("schema_version"), s.table("schema_version"))
}

func (s Set) checksumTable() string {
	return s.table("schema_checksums") + " (\n  version int primary key, name text not null, sha256 text not null,\n" +
		"  applied_at timestamptz not null default clock_timestamp())"
}

// SchemaError says that a schema's version is outside what a program works with.
type SchemaError struct {
	Schema          string
	Found, Min, Max int
}

// Error names the version found, the range wanted, and what to do.
func (e *SchemaError) Error() string {
	want := fmt.Sprintf("version %d", e.Min)
	if e.Min != e.Max {
		want = fmt.Sprintf("versions %d to %d", e.Min, e.Max)
	}
	if e.Found > e.Max {
		return fmt.Sprintf("database schema %s is at version %d, newer than this program, which works with %s: install the program that belongs to it (the one whose `railctl migrate up` was run)", e.Schema, e.Found, want)
	}
	return fmt.Sprintf("database schema %s is at version %d, this program works with %s: run `railctl migrate up`", e.Schema, e.Found, want)
}

// CheckSchema returns a *SchemaError when the schema's version is outside lo to hi,
// both included. Daemons call it at start and refuse; they never migrate.
func CheckSchema(ctx context.Context, db DB, schema string, lo, hi int) error {
	v, err := Version(ctx, db, schema)
	if err != nil {
		return err
	}
	if v < lo || v > hi {
		return &SchemaError{Schema: schema, Found: v, Min: lo, Max: hi}
	}
	return nil
}

// Check is CheckSchema with the range of the set.
func (s Set) Check(ctx context.Context, db DB) error {
	newest, err := s.Newest()
	if err != nil {
		return err
	}
	lo, hi := s.Lo, s.Hi
	if hi == 0 {
		hi = newest
	}
	if lo == 0 {
		lo = newest
	}
	return CheckSchema(ctx, db, s.Schema, lo, hi)
}
