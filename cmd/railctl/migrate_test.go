package main

import (
	"fmt"
	"strings"
	"testing"

	"briefrail/internal/pg/pgtest"
	"briefrail/migrations"
)

func TestMigrateUpFromNothingAndAgain(t *testing.T) {
	t.Parallel()
	r := rigOn(t, pgtest.Empty(t))
	if s := decode[[]migration](r, "migrate.status", "migrate", "status"); len(s) != migrations.MaxVersion || s[0].State != "pending" || s[0].AppliedAt != nil {
		t.Errorf("status %+v", s)
	}
	got := r.ctl("migrate", "up")
	if got.code != exitOK || !strings.Contains(got.err, "applying 1: 001_ops_schema.sql") || !strings.Contains(got.out, fmt.Sprintf("is at version %[1]d; %[1]d migration(s) applied", migrations.MaxVersion)) {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	if again := decode[migrated](r, "migrate.up", "migrate", "up"); again.Applied != 0 || again.Version != migrations.MaxVersion {
		t.Errorf("again %+v", again)
	}
	if s := decode[[]migration](r, "migrate.status", "migrate", "status"); s[7].State != "applied" || s[7].AppliedAt == nil {
		t.Errorf("status %+v", s[7])
	}
	r.ok("status")
}

// What is printed can be applied with another tool, and railctl takes it for its
// own.
func TestMigratePrintIsWhatUpDoes(t *testing.T) {
	t.Parallel()
	r := rigOn(t, pgtest.Empty(t))
	one := call(t, nil, "migrate", "print", "1")
	all := call(t, nil, "migrate", "print")
	if one.code != exitOK || !strings.HasPrefix(all.out, one.out) || strings.Count(all.out, "\ncommit;") != migrations.MaxVersion {
		t.Fatalf("exit %d, %d: %s", one.code, all.code, one.err)
	}
	r.exec(all.out)
	if again := decode[migrated](r, "migrate.up", "migrate", "up"); again.Applied != 0 {
		t.Errorf("up after print: %+v", again)
	}
	r.ok("check")
}

// A file that is not what was applied is listed and told of in the exit code.
func TestMigrateStatusOfAChangedFile(t *testing.T) {
	r := newRig(t)
	r.exec(`UPDATE ops.schema_checksums SET sha256 = repeat('0', 64) WHERE version = 3`)
	got := r.ctl("migrate", "status")
	if got.code != exitError || !strings.Contains(got.out, "changed") || !strings.Contains(got.err, "migration 3 is not the text that was applied") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	r := newRig(t)
	r.exec(`UPDATE ops.schema_version SET version = 99`)
	for _, args := range [][]string{{"status"}, {"migrate", "up"}, {"matter", "demand", newKey().String(), "--new", "--reason", "x"}} {
		if got := r.ctl(args...); got.code != exitError || !strings.Contains(got.err, "newer than this program") {
			t.Errorf("%v: exit %d: %s", args, got.code, got.err)
		}
	}
}
