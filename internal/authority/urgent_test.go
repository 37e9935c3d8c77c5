package authority_test

import (
	"slices"
	"testing"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/outbox"
	"briefrail/internal/rail"
)

// While a scope is closed the relay serves its bucket before the others, wherever its
// turn is, so that readers are not behind when the new writer begins.
func TestAClosedScopesFactsAreSentFirst(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	h := outbox.Holder{ID: rail.NewUUID(), Name: "relay"}
	share, err := outbox.LeaseBuckets(t.Context(), s.Pool, h, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	id := s.planned(t, nil)
	exec(t, s.Pool, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) SELECT $1, gen_random_uuid(), 'document.uploaded' FROM generate_series(1, 1000)`, s.key.Firm)
	exec(t, s.Pool, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, 'document.uploaded')`, s.key.Firm, s.key.Matter)
	bucket := int16(rail.Bucket(s.key.Matter))
	first := func() int16 {
		look := outbox.Look{Limit: 100, Leases: last(share.Leases, bucket)}
		look.After = make([]int64, len(look.Leases))
		facts, _, err := outbox.Batch(t.Context(), s.Pool, h, look)
		if err != nil || len(facts) == 0 {
			t.Fatalf("%d facts, %v", len(facts), err)
		}
		return facts[0].Bucket
	}
	step := func(what string, want bool, do func() (authority.Change, error)) {
		if _, err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := first() == bucket; got != want {
			t.Errorf("%s: its facts are first: %t", what, got)
		}
	}
	step("before", false, func() (authority.Change, error) { return authority.ChangeOf(t.Context(), s.Pool, id) })
	step("closing", true, func() (authority.Change, error) { return s.c.Close(t.Context(), id) })
	step("drained", true, func() (authority.Change, error) { return s.c.Drain(t.Context(), id) })
	step("sealed", true, func() (authority.Change, error) { return s.c.Seal(t.Context(), id) })
	step("reopened", false, func() (authority.Change, error) { return s.c.Abort(t.Context(), id) })
}

// last puts a bucket's lease behind all others.
func last(all []outbox.Lease, bucket int16) []outbox.Lease {
	i := slices.IndexFunc(all, func(l outbox.Lease) bool { return l.Bucket == bucket })
	return append(slices.Delete(slices.Clone(all), i, i+1), all[i])
}
