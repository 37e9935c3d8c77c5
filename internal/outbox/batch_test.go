package outbox_test

import (
	"slices"
	"testing"
	"time"

	"briefrail/internal/outbox"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

const appendSQL = `INSERT INTO ops.domain_event_outbox (event_id, firm_id, matter_id, event_name) VALUES ($1, gen_random_uuid(), gen_random_uuid(), 'document.uploaded')`

// append1 commits a fact of a fresh matter and returns its id.
func append1(t *testing.T, db *pgtest.DB) rail.UUID {
	t.Helper()
	id := rail.NewUUID()
	exec(t, db, appendSQL, id)
	return id
}

func appendMany(t *testing.T, db *pgtest.DB, n int) {
	t.Helper()
	exec(t, db, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
		SELECT gen_random_uuid(), gen_random_uuid(), 'document.uploaded' FROM generate_series(1, $1)`, n)
}

func look(s outbox.Share, limit int) outbox.Look {
	return outbox.Look{Leases: s.Leases, After: make([]int64, len(s.Leases)), Limit: limit}
}

func batch(t *testing.T, db *pgtest.DB, h outbox.Holder, l outbox.Look) []outbox.Pending {
	t.Helper()
	got, _, err := outbox.Batch(t.Context(), db.Pool, h, l)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func events(facts []outbox.Pending) []rail.UUID {
	out := make([]rail.UUID, len(facts))
	for i, f := range facts {
		out[i] = f.Event
	}
	return out
}

func mark(t *testing.T, db *pgtest.DB, h outbox.Holder, facts []outbox.Pending) int {
	t.Helper()
	got, err := outbox.Mark(t.Context(), db.Pool, h, facts)
	if err != nil {
		t.Fatal(err)
	}
	return len(got)
}

func count(t *testing.T, db *pgtest.DB, sql string, args ...any) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestABatchIsWhatIsUnpublishedAndNotInHand(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := holder("a")
	s := take(t, db, h)
	appendMany(t, db, 100)
	exec(t, db, `INSERT INTO ops.domain_event_outbox (firm_id, event_name, traceparent, tracestate)
		VALUES ('cacacaca-0000-8000-8000-000000000002', 'firm.created', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'a=b')`)
	all := batch(t, db, h, look(s, 1000))
	if len(all) != 101 {
		t.Fatalf("%d facts of 101", len(all))
	}
	i := slices.IndexFunc(all, func(p outbox.Pending) bool { return p.Name == "firm.created" })
	if f := all[i]; !f.Matter.IsZero() || f.TraceState != "a=b" || f.Bucket != 4 || f.Epoch != 1 || f.TraceParent == "" {
		t.Errorf("the fact without a matter: %+v", f)
	}
	l := look(s, 1000)
	for _, f := range all[:60] {
		l.Hand = append(l.Hand, f.Seq)
	}
	if got := batch(t, db, h, l); len(got) != 41 {
		t.Errorf("%d facts beside 60 in hand", len(got))
	}
	if n := mark(t, db, h, all[:60]); n != 60 {
		t.Errorf("marked %d", n)
	}
	if n := mark(t, db, h, all[:60]); n != 0 {
		t.Errorf("marked %d a second time", n)
	}
	if got := batch(t, db, h, look(s, 1000)); len(got) != 41 {
		t.Errorf("%d facts after 60 were marked", len(got))
	}
	if got := batch(t, db, h, look(s, 7)); len(got) != 7 {
		t.Errorf("%d facts for a limit of 7", len(got))
	}
}

// field report 8: a number that commits late, below those that are published, and
// one that never commits.
func TestALateCommitIsFoundAndAGapIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := holder("a")
	s := take(t, db, h)
	late, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.Rollback(t.Context()) }()
	if _, err := late.Exec(t.Context(), appendSQL, rail.NewUUID()); err != nil {
		t.Fatal(err)
	}
	rolledBack, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rolledBack.Exec(t.Context(), appendSQL, rail.NewUUID()); err != nil {
		t.Fatal(err)
	}
	if err := rolledBack.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	append1(t, db)
	if n := mark(t, db, h, batch(t, db, h, look(s, 10))); n != 1 {
		t.Fatalf("marked %d beside an open transaction", n)
	}
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := mark(t, db, h, batch(t, db, h, look(s, 10))); n != 1 {
		t.Errorf("the late fact: marked %d", n)
	}
	if n := count(t, db, `SELECT count(*) FROM ops.domain_event_outbox WHERE published_at IS NULL`); n != 0 {
		t.Errorf("%d unpublished", n)
	}
}

// succeeded holds that whoever has lost its share reads nothing, marks nothing and notes
// nothing of what it has in hand, and that the heir marks all of it.
func succeeded(t *testing.T, db *pgtest.DB, old outbox.Holder, s outbox.Share, inHand []outbox.Pending, heir outbox.Holder, owner outbox.Share) {
	t.Helper()
	if n := mark(t, db, old, inHand); n != 0 {
		t.Errorf("the old holder marked %d", n)
	}
	noted, _, err := outbox.Fail(t.Context(), db.Pool, old, []outbox.Refused{{Pending: inHand[0], Code: "x", Park: true}}, retry())
	if err != nil || noted != 0 {
		t.Errorf("the old holder noted %d, %v", noted, err)
	}
	if got := batch(t, db, old, look(s, 100)); len(got) != 0 {
		t.Errorf("the old holder reads %d", len(got))
	}
	if n := mark(t, db, heir, batch(t, db, heir, look(owner, 100))); n != len(inHand) {
		t.Errorf("the heir marked %d of %d", n, len(inHand))
	}
}

// field report 13: a relay that slept past its lease reads nothing, marks nothing
// and notes nothing; its successor does.
func TestAZombieWritesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	zombie, heir := holder("zombie"), holder("heir")
	s := take(t, db, zombie)
	appendMany(t, db, 20)
	inHand := batch(t, db, zombie, look(s, 100))
	lapse(t, db, zombie)
	owner := take(t, db, heir)
	succeeded(t, db, zombie, s, inHand, heir, owner)
	// the same process again, under a newer epoch: what it read under the old one stays void
	appendMany(t, db, 1)
	old := batch(t, db, heir, look(owner, 100))
	lapse(t, db, heir)
	take(t, db, zombie)
	lapse(t, db, zombie)
	take(t, db, heir)
	if n := mark(t, db, heir, old); n != 0 {
		t.Errorf("marked %d under an epoch before the last", n)
	}
}

// After a rewind of the ledger epochs are given out again: who holds the bucket is
// looked at as well.
func TestARewoundEpochIsNotTheOldHolders(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	old, heir := holder("old"), holder("heir")
	s := take(t, db, old)
	appendMany(t, db, 20)
	inHand := batch(t, db, old, look(s, 100))
	exec(t, db, `BEGIN;
SET LOCAL session_replication_role = replica; -- as a restore brings it
UPDATE ops.outbox_bucket_leases SET holder = NULL, expires_at = NULL, epoch = epoch - 1;
DELETE FROM ops.outbox_relays;
COMMIT`)
	owner := take(t, db, heir)
	if !slices.Equal(owner.Leases, s.Leases) {
		t.Fatal("the heir's epochs are not those of the old holder")
	}
	succeeded(t, db, old, s, inHand, heir, owner)
}

func retry() outbox.Backoff { return outbox.Backoff{First: 10 * time.Second, Max: time.Minute} }

func refuse(t *testing.T, db *pgtest.DB, h outbox.Holder, r ...outbox.Refused) (parked int) {
	t.Helper()
	noted, parked, err := outbox.Fail(t.Context(), db.Pool, h, r, retry())
	if err != nil || noted != len(r) {
		t.Fatalf("noted %d of %d: %v", noted, len(r), err)
	}
	return parked
}

// field report 12: the backoff is in the row, grows, is bounded, and whoever owns
// the bucket next respects it.
func TestABackoffSurvivesARestart(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := holder("a")
	s := take(t, db, h)
	id := append1(t, db)
	neighbour := append1(t, db)
	for attempt := 1; attempt <= 8; attempt++ {
		exec(t, db, `UPDATE ops.outbox_failures SET next_attempt_at = clock_timestamp() - interval '1 s'`)
		facts := batch(t, db, h, look(s, 100))
		i := slices.Index(events(facts), id)
		if i < 0 || facts[i].Attempts != attempt-1 {
			t.Fatalf("attempt %d: %+v", attempt, facts)
		}
		if refuse(t, db, h, outbox.Refused{Pending: facts[i], Code: "ThrottlingException", Text: "slow \x00down\xff", SentTo: []string{"sqs"}}) != 0 {
			t.Fatal("parked")
		}
		var wait float64
		if err := db.Pool.QueryRow(t.Context(), `SELECT extract(epoch FROM next_attempt_at - clock_timestamp())::float8 FROM ops.outbox_failures`).Scan(&wait); err != nil {
			t.Fatal(err)
		}
		if most := min(10*float64(int(1)<<(attempt-1)), 60); wait > most {
			t.Errorf("attempt %d waits %.1f s, more than %.1f s", attempt, wait, most)
		}
	}
	exec(t, db, `UPDATE ops.outbox_failures SET next_attempt_at = clock_timestamp() + interval '1 min'`)
	h2 := holder("after a restart")
	lapse(t, db, h)
	s = take(t, db, h2)
	if got := events(batch(t, db, h2, look(s, 100))); !slices.Equal(got, []rail.UUID{neighbour}) {
		t.Errorf("before it is due: %v, want only the neighbour", got)
	}
	exec(t, db, `UPDATE ops.outbox_failures SET next_attempt_at = clock_timestamp()`)
	got := batch(t, db, h2, look(s, 100))
	if i := slices.Index(events(got), id); i < 0 || !slices.Equal(got[i].SentTo, []string{"sqs"}) || got[i].Attempts != 8 {
		t.Errorf("when due: %+v", got)
	}
	if n := mark(t, db, h2, got); n != 2 {
		t.Errorf("marked %d", n)
	}
	if n := count(t, db, `SELECT count(*) FROM ops.outbox_failures`); n != 0 {
		t.Errorf("%d failures of published facts", n)
	}
}

// ignoreSQL judges a fact, and settles it, as the trigger does.
const ignoreSQL = `WITH r AS (INSERT INTO ops.trigger_receipts (event_id, verdict) VALUES ($1, 'ignored') RETURNING event_id)
  DELETE FROM ops.outbox_undecided u USING r WHERE u.event_id = r.event_id`

func TestAParkedFactWaitsForAPersonAndStaysOutOfTheWay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := holder("a")
	s := take(t, db, h)
	id := append1(t, db)
	exec(t, db, ignoreSQL, id)
	if refuse(t, db, h, outbox.Refused{Pending: batch(t, db, h, look(s, 1))[0], Code: "MalformedDetail", Text: "no", Park: true}) != 1 {
		t.Fatal("not parked")
	}
	if got := batch(t, db, h, look(s, 10)); len(got) != 0 {
		t.Errorf("a parked fact is read: %+v", got)
	}
	parked, err := outbox.ListParked(t.Context(), db.Pool, 10)
	if err != nil || len(parked) != 1 || parked[0].Event != id || parked[0].Reason != "MalformedDetail: no" {
		t.Errorf("parked: %+v, %v", parked, err)
	}
	for _, publishing := range []string{"none", "required"} {
		if _, err := outbox.SetPublishing(t.Context(), db.Pool, publishing, "op", "why"); err != nil {
			t.Fatal(err)
		}
		if n, err := outbox.Prune(t.Context(), db.Pool, 0, 10); err != nil || n != 0 {
			t.Errorf("%s: pruned %d parked facts, %v", publishing, n, err)
		}
	}
	if n, err := outbox.Replay(t.Context(), db.Pool, []rail.UUID{rail.NewUUID()}, "op", "why"); err != nil || n != 0 {
		t.Errorf("replayed %d of nothing, %v", n, err)
	}
	if n, err := outbox.Replay(t.Context(), db.Pool, nil, "op", "the bus takes it now"); err != nil || n != 1 {
		t.Errorf("replayed %d, %v", n, err)
	}
	if n := count(t, db, `SELECT count(*) FROM ops.audit_log WHERE action = 'outbox.replay' AND actor = 'op'`); n != 1 {
		t.Errorf("%d audit rows", n)
	}
	if n := mark(t, db, h, batch(t, db, h, look(s, 10))); n != 1 {
		t.Errorf("marked %d after the replay", n)
	}
	if n, err := outbox.Prune(t.Context(), db.Pool, 0, 10); err != nil || n != 1 {
		t.Errorf("pruned %d when done, %v", n, err)
	}
}

func TestPruneTakesTheFailureAlong(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := holder("a")
	s := take(t, db, h)
	id := append1(t, db)
	exec(t, db, ignoreSQL, id)
	refuse(t, db, h, outbox.Refused{Pending: batch(t, db, h, look(s, 1))[0], Code: "x"})
	if n, err := outbox.Prune(t.Context(), db.Pool, 0, 10); err != nil || n != 1 {
		t.Errorf("pruned %d, %v", n, err)
	}
	if n := count(t, db, `SELECT count(*) FROM ops.outbox_failures`); n != 0 {
		t.Errorf("%d failures of nothing", n)
	}
}

func TestRemainingCountsUpToAPoint(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := holder("a")
	s := take(t, db, h)
	appendMany(t, db, 3)
	until, err := outbox.Now(t.Context(), db.Pool)
	if err != nil {
		t.Fatal(err)
	}
	appendMany(t, db, 5)
	refuse(t, db, h, outbox.Refused{Pending: oldest(batch(t, db, h, look(s, 100))), Code: "x", Park: true})
	got, err := outbox.CountRemaining(t.Context(), db.Pool, until)
	if want := (outbox.Remaining{Unpublished: 3, Parked: 1, Undecided: 3}); err != nil || got != want {
		t.Errorf("remaining %+v, want %+v, %v", got, want, err)
	}
}

func oldest(facts []outbox.Pending) outbox.Pending {
	return slices.MinFunc(facts, func(a, b outbox.Pending) int { return int(a.Seq - b.Seq) })
}
