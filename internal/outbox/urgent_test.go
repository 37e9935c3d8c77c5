package outbox_test

import (
	"testing"

	"briefrail/internal/outbox"
	"briefrail/internal/pg/pgtest"
)

// Buckets that somebody waits for are read first, whatever their turn; the others keep
// half of each reading, however many are urgent.
func TestUrgentBucketsComeFirstAndLeaveTheOthersTheirPart(t *testing.T) {
	t.Parallel()
	const limit = 1280 // half of it is ten buckets' part
	for name, c := range map[string]struct {
		urgent     string
		first, all int // buckets that come before all others; facts of those that are urgent
	}{
		"none":        {`'{}'`, 0, 0},
		"one":         {`'{63}'`, 1, 64},
		"ten":         {`ARRAY(SELECT generate_series(54, 63))`, 10, 640},
		"all but one": {`ARRAY(SELECT generate_series(1, 63))`, 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			exec(t, db, `CREATE OR REPLACE FUNCTION ops.buckets_urgent() RETURNS smallint[] LANGUAGE sql STABLE RETURN `+c.urgent+`::smallint[]`)
			h := holder("a")
			s := take(t, db, h)
			appendMany(t, db, 8000) // over a hundred a bucket: more than one reading takes of it
			got := batch(t, db, h, look(s, limit))
			if len(got) != limit {
				t.Fatalf("%d facts, want %d", len(got), limit)
			}
			urgent := map[int16]bool{}
			for _, b := range urgentOf(t, db) {
				urgent[b] = true
			}
			assertFirst(t, got, urgent, c.first)
			if n := ofUrgent(got, urgent); c.all > 0 && n != c.all {
				t.Errorf("%d facts of urgent buckets, want %d", n, c.all)
			}
		})
	}
}

func urgentOf(t *testing.T, db *pgtest.DB) (all []int16) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), `SELECT ops.buckets_urgent()`).Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func ofUrgent(facts []outbox.Pending, urgent map[int16]bool) (n int) {
	for _, f := range facts {
		if urgent[f.Bucket] {
			n++
		}
	}
	return n
}

// assertFirst wants that many urgent buckets at the head, and then the rest by turn.
func assertFirst(t *testing.T, facts []outbox.Pending, urgent map[int16]bool, want int) {
	t.Helper()
	var order []int16
	for _, f := range facts {
		if len(order) == 0 || order[len(order)-1] != f.Bucket {
			order = append(order, f.Bucket)
		}
	}
	for i, b := range order[:min(want, len(order))] {
		if !urgent[b] {
			t.Errorf("place %d has bucket %d, which nobody waits for: %v", i, b, order)
		}
	}
	// lease order is that of the buckets: behind the first ones each is higher than the one before
	for i := want + 1; i < len(order); i++ {
		if order[i] < order[i-1] {
			t.Errorf("behind the first %d the turn is not kept: %v", want, order)
			break
		}
	}
}
