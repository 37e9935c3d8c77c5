package outbox_test

import (
	"testing"

	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

func TestBucketIsTheSameInSQL(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ids := []rail.UUID{}
	for id := range rail.BucketVectors() {
		u, err := rail.ParseUUID(id)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, u)
	}
	for range 500 {
		ids = append(ids, rail.NewUUID())
	}
	for _, id := range ids {
		var got int
		if err := db.Pool.QueryRow(t.Context(), `SELECT ops.matter_bucket($1)`, [16]byte(id)).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if want := rail.Bucket(id); got != want {
			t.Errorf("%s: bucket %d in SQL, %d in Go", id, got, want)
		}
	}
}
