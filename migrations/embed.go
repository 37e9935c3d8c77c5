// Package migrations holds the SQL of schema ops, one numbered file a step,
// embedded so that railctl can apply it anywhere.
//
// It owns the shape of every table and the guards by which the tables defend
// themselves; what the guards mean is told in docs/ARCHITECTURE.md. Files are
// forward-only and never edited after a release: their checksums are kept in the
// database. It does not apply anything by itself, and no daemon migrates on
// start.
package migrations

import "embed"

// FS holds the files NNN_name.sql.
//
//go:embed *.sql
var FS embed.FS

// Schema is the schema that the files create.
const Schema = "ops"

// The range of schema versions that this build of the binaries can serve.
const (
	MinVersion = 14
	MaxVersion = 14
)
