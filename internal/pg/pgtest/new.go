package pgtest

import (
	"testing"

	"briefrail/internal/pg"
	"briefrail/migrations"
)

// New makes a database with the newest version of the rail's schema.
func New(t testing.TB) *DB {
	t.Helper()
	return NewWith(t, Ops())
}

// Ops is the rail's own migrations.
func Ops() pg.Set {
	return pg.Set{FS: migrations.FS, Schema: migrations.Schema, Lo: migrations.MinVersion, Hi: migrations.MaxVersion}
}
