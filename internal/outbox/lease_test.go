package outbox_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/outbox"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

const lease = 10 * time.Second

func holder(name string) outbox.Holder { return outbox.Holder{ID: rail.NewUUID(), Name: name} }

func take(t *testing.T, db *pgtest.DB, h outbox.Holder, busy ...int16) outbox.Share {
	t.Helper()
	s, err := outbox.LeaseBuckets(t.Context(), db.Pool, h, lease, busy)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exec(t *testing.T, db *pgtest.DB, sql string, args ...any) int64 {
	t.Helper()
	tag, err := db.Pool.Exec(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	return tag.RowsAffected()
}

// lapse lets a relay's leases run out.
func lapse(t *testing.T, db *pgtest.DB, h outbox.Holder) {
	t.Helper()
	exec(t, db, `UPDATE ops.outbox_bucket_leases SET expires_at = clock_timestamp() - interval '1 s' WHERE holder = $1`, h.ID)
	exec(t, db, `UPDATE ops.outbox_relays SET expires_at = clock_timestamp() - interval '1 s' WHERE relay = $1`, h.ID)
}

func TestOneRelayHasEveryBucket(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	a := holder("a")
	first := take(t, db, a)
	if len(first.Leases) != rail.Buckets || first.Relays != 1 || first.Missing != 0 || first.NextExpiry != 0 {
		t.Fatalf("first: %d leases, %+v", len(first.Leases), first)
	}
	if again := take(t, db, a); !cmp.Equal(first.Leases, again.Leases) {
		t.Errorf("a renewal changed something: %s", cmp.Diff(first.Leases, again.Leases))
	}
}

func TestRelaysShareEvenly(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	relays := []outbox.Holder{holder("a"), holder("b"), holder("c")}
	for round := range 2 {
		for _, h := range relays {
			take(t, db, h)
		}
		if round == 0 {
			continue
		}
		got := []int{}
		for _, h := range relays {
			s := take(t, db, h)
			got = append(got, len(s.Leases))
			if s.Relays != 3 || s.Missing != 0 {
				t.Errorf("%s: %d relays, %d missing", h.Name, s.Relays, s.Missing)
			}
		}
		if got[0]+got[1]+got[2] != 64 || min(got[0], got[1], got[2]) != 21 {
			t.Errorf("64 buckets shared as %v", got)
		}
	}
	list, err := outbox.Relays(t.Context(), db.Pool)
	if err != nil || len(list) != 3 || list[0].Name != "a" || list[0].Buckets < 21 {
		t.Errorf("relays %+v, %v", list, err)
	}
}

// What is in hand is finished before its bucket moves.
func TestABusyBucketLeavesLast(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	a, b := holder("a"), holder("b")
	take(t, db, a)
	take(t, db, b)
	busy := make([]int16, 40)
	for i := range busy {
		busy[i] = int16(24 + i)
	}
	var kept, leaving int
	for _, l := range take(t, db, a, busy...).Leases {
		if l.Bucket < 24 {
			t.Errorf("idle bucket %d kept before busy ones", l.Bucket)
		}
		if kept++; l.Leaving {
			leaving++
		}
	}
	if kept != 40 || leaving != 8 {
		t.Errorf("kept %d of which %d leave", kept, leaving)
	}
	if s := take(t, db, b); len(s.Leases) != 24 || s.Missing != 8 {
		t.Errorf("b has %d, misses %d", len(s.Leases), s.Missing)
	}
	if s := take(t, db, a); len(s.Leases) != 32 {
		t.Errorf("a keeps %d once idle", len(s.Leases))
	}
	if s := take(t, db, b); len(s.Leases) != 32 || s.Missing != 0 {
		t.Errorf("b has %d, misses %d", len(s.Leases), s.Missing)
	}
}

// The others know when a silent relay's lease ends, take its buckets then and not
// before, and under new epochs.
func TestADeadRelaysBucketsMove(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	a, b := holder("a"), holder("b")
	before := take(t, db, a)
	s := take(t, db, b)
	if len(s.Leases) != 0 || s.Missing != 32 || s.NextExpiry < lease-2*time.Second || s.NextExpiry > lease {
		t.Fatalf("b beside a live lease: %d leases, %+v", len(s.Leases), s)
	}
	lapse(t, db, a)
	s = take(t, db, b)
	if len(s.Leases) != 64 || s.Relays != 1 {
		t.Fatalf("b got %d buckets of the dead one, %d relays", len(s.Leases), s.Relays)
	}
	for i, l := range s.Leases {
		if l.Epoch != before.Leases[i].Epoch+1 {
			t.Errorf("bucket %d moved under epoch %d", l.Bucket, l.Epoch)
		}
	}
	// the dead one wakes up: it holds nothing, and gets its share by asking
	if s := take(t, db, a); len(s.Leases) != 0 || s.Missing != 32 {
		t.Errorf("the sleeper holds %d", len(s.Leases))
	}
}

func TestAReleaseMovesBucketsAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	a, b := holder("a"), holder("b")
	take(t, db, a)
	take(t, db, b)
	if err := outbox.ReleaseBuckets(t.Context(), db.Pool, a); err != nil {
		t.Fatal(err)
	}
	if s := take(t, db, b); len(s.Leases) != 64 || s.Relays != 1 {
		t.Errorf("b has %d of %d relays", len(s.Leases), s.Relays)
	}
}
