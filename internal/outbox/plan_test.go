package outbox

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

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
	rows, err := db.Pool.Query(t.Context(), `EXPLAIN `+batchSQL, h.ID, buckets, epochs, after, []int64{}, 64, 1000)
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
