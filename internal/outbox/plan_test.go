package outbox

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// A poll costs what is pending, not what is kept: it reads by the index of what is
// unpublished, whatever the planner knows of the table.
func TestABatchReadsByIndex(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, sql := range []string{
		`INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
		   SELECT gen_random_uuid(), gen_random_uuid(), 'document.uploaded' FROM generate_series(1, 20000)`,
		`UPDATE ops.domain_event_outbox SET published_at = clock_timestamp() WHERE seq <= 19900`,
		`ANALYZE ops.domain_event_outbox`,
	} {
		if _, err := db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	h := Holder{ID: rail.NewUUID(), Name: "a"}
	s, err := LeaseBuckets(t.Context(), db.Pool, h, 1e9, nil)
	if err != nil {
		t.Fatal(err)
	}
	var buckets []int16
	var epochs, after []int64
	for _, l := range s.Leases {
		buckets, epochs, after = append(buckets, l.Bucket), append(epochs, l.Epoch), append(after, 0)
	}
	rows, err := db.Pool.Query(t.Context(), `EXPLAIN `+batchSQL, h.ID, buckets, epochs, after, []int64{}, 64, 1000, []string{})
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	plan := strings.Join(lines, "\n")
	if !strings.Contains(plan, "outbox_unpublished") || strings.Contains(plan, "Seq Scan on domain_event_outbox") || strings.Contains(plan, "Anti Join") {
		t.Errorf("a poll reads otherwise:\n%s", plan)
	}
}

// Under an old snapshot a trigger that has decided up to a number does not pass what
// it has decided, whatever the planner knows of the table.
func TestUndecidedFactsAreReadFromANumberOn(t *testing.T) {
	t.Parallel()
	const dead, grace = 20_000, time.Duration(0)
	db := pgtest.New(t)
	db.HoldSnapshot(t)
	do := func(sql string, args ...any) {
		if _, err := db.Pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	facts := `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
	  SELECT gen_random_uuid(), gen_random_uuid(), 'document.uploaded' FROM generate_series(1, $1::int)`
	do(facts, dead)
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`) // as if each had its receipt
		if err == nil {
			_, err = tx.Exec(t.Context(), `DELETE FROM ops.outbox_undecided`)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	do(facts, 20)
	for _, statistics := range []string{`SELECT`, `ANALYZE ops.outbox_undecided`} {
		do(statistics)
		for name, look := range map[string]func(pg.DB, int64) error{
			"waiting": func(db pg.DB, seq int64) error { _, err := Waiting(t.Context(), db, grace, seq); return err },
			"take": func(db pg.DB, seq int64) error {
				if _, err := db.Exec(t.Context(), `SET LOCAL enable_seqscan = off`); err != nil { // as the trigger does
					return err
				}
				return db.QueryRow(t.Context(), takeSQL, grace, seq, 500).Scan()
			},
		} {
			pages := func(seq int64) int { return db.Pages(t, func(db pg.DB) error { return look(db, seq) }) }
			if all, behind := pages(0), pages(dead+1); all < dead/200 || behind > 200 {
				t.Errorf("%s after %s: %d pages from the start, %d behind what is decided; want many, and at most 200", name, statistics, all, behind)
			}
		}
	}
}
