package local

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	timelineSQL = `SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`
	wordsSQL    = `SELECT coalesce(string_agg(word, ' ' ORDER BY word), '') FROM kept`
)

func do(t *testing.T, c *Cluster, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func TestRestoreGoesBackOnANewTimeline(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	do(t, c, `CREATE TABLE kept AS SELECT 'before'::text AS word`)
	if err := c.Backup(t.Context(), "backup"); err != nil {
		t.Fatal(err)
	}
	do(t, c, `INSERT INTO kept VALUES ('later')`)
	if err := c.Restore(t.Context(), "backup"); err != nil {
		t.Fatal(err)
	}
	if got := exec1(t, c, wordsSQL); got != "before" {
		t.Errorf("words: %q", got)
	}
	if got := exec1(t, c, timelineSQL); got != "00000002" {
		t.Errorf("timeline %s", got)
	}
	do(t, c, `INSERT INTO kept VALUES ('after')`)
}

func TestStandbyFollowsUntilItIsPromoted(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	do(t, c, `CREATE TABLE kept (word text)`)
	s, err := c.Standby(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	do(t, c, `INSERT INTO kept VALUES ('followed')`)
	for end := time.Now().Add(20 * time.Second); exec1(t, s, wordsSQL) != "followed" && time.Now().Before(end); {
		exec1(t, s, `SELECT 'waited' FROM pg_sleep(0.05)`)
	}
	if err := s.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, c, `INSERT INTO kept VALUES ('alone')`)
	if got := exec1(t, s, wordsSQL); got != "followed" {
		t.Errorf("words of the new primary: %q", got)
	}
	if got := exec1(t, s, timelineSQL); got != "00000002" {
		t.Errorf("timeline %s", got)
	}
}
