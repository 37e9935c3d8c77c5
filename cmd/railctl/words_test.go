package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v3"

	"briefrail/internal/rail"
)

func TestYAMLKeepsTextText(t *testing.T) {
	t.Parallel()
	want := map[string]any{"a": "true", "b": "012", "c": "1e3", "d": "null", "e": "two\nlines", "f": "- x: {y}", "g": "", "h": "<é\u2028>", "i": "~"}
	var b bytes.Buffer
	if err := writeYAML(&b, view{kind: "x", data: want}); err != nil {
		t.Fatal(err)
	}
	var got struct{ Data map[string]any }
	if err := yaml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	if diff := cmp.Diff(want, got.Data); diff != "" {
		t.Errorf("%s in\n%s", diff, b.String())
	}
}

func TestInstants(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-03-04T11:00:00Z":      now.Add(-time.Hour),
		"2026-03-04T12:00:00+01:00": now.Add(-time.Hour),
		"90m":                       now.Add(-90 * time.Minute),
		"3d":                        now.Add(-72 * time.Hour),
		"0s":                        now,
	} {
		if got, err := instant("since", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "15", "-1h", "d", "-3d", "99999d", "yesterday", "2026-03-04", "2026-03-04T13:00:00Z"} {
		if got, err := instant("since", text, now); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	if got, err := since("since", "", now); err != nil || !got.IsZero() {
		t.Errorf("no bound: %v, %v", got, err)
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	p := newPage(&bytes.Buffer{}, now)
	var none *time.Time
	early := now.Add(-5 * time.Second)
	for want, v := range map[string]any{
		"-": none, "yes": true, "7": 7, "2026-03-04 11:59:55Z (5s ago)": &early, "a b": "a\tb", "a\ufffdb": "a\xffb", "x y": "x\u009by",
		"01020000-0000-0000-0000-000000000000": rail.UUID{1, 2},
	} {
		if got := p.cell(v); got != want {
			t.Errorf("cell(%v) = %q, want %q", v, got, want)
		}
	}
	for _, empty := range []any{"", rail.UUID{}, time.Time{}} {
		if got := p.cell(empty); got != "-" {
			t.Errorf("cell(%v) = %q", empty, got)
		}
	}
}

func TestDatabaseFromAFile(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte(r.DSN+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.env = []string{"RAIL_DATABASE_URL_FILE=" + file}
	r.ok("status")
	r.env = append(r.env, "RAIL_DATABASE_URL="+r.DSN)
	if got := r.ctl("status"); got.code != exitUsage || !strings.Contains(got.err, "keep one") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

// A rail whose database is gone in the middle is a failure, not a wrong use.
func TestInterruptedCallIsAFailure(t *testing.T) {
	r := newRig(t)
	k := r.one()
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"wait", k.String()}, r.env, strings.NewReader(""), &out, &errs)
	}()
	waitFor(t, func() bool {
		return value[int](r, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'railctl %'`) > 0
	})
	cancel()
	if code := <-ended; code != exitError {
		t.Errorf("exit %d: %s%s", code, out.String(), errs.String())
	}
}

// Two dry runs of one change at once, and the change itself, do not disturb each
// other: a dry run holds nothing when it has ended.
func TestDryRunHoldsNothing(t *testing.T) {
	r := newRig(t)
	k := r.one()
	s := &session{app: &app{stderr: &bytes.Buffer{}}, pool: r.Pool}
	for range 3 {
		err := s.apply(t.Context(), &change{dryRun: true}, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE ops.matter_frame_jobs SET last_error = 'x'`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	boom := errors.New("boom")
	if err := s.apply(t.Context(), &change{dryRun: true}, func(pgx.Tx) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("err %v", err)
	}
	r.ok("matter", "park", k.String(), "--reason", "x", "--timeout", "1s")
	if n := value[int](r, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = current_database() AND mode = 'RowExclusiveLock'`); n != 0 {
		t.Errorf("%d locks left", n)
	}
}

// What the guards would refuse at the commit, a dry run refuses too.
func TestDryRunAsksTheDeferredGuards(t *testing.T) {
	r := newRig(t)
	k := r.one()
	r.claim(k)
	s := &session{app: &app{stderr: &bytes.Buffer{}}, pool: r.Pool}
	err := s.apply(t.Context(), &change{dryRun: true}, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE ops.matter_frame_jobs SET run_status = 'queued', run_id = NULL, claimed_at = NULL, lease_expires_at = NULL`)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "run closed") {
		t.Errorf("err %v", err)
	}
}
