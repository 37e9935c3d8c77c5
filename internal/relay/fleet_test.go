package relay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/relay"
)

// witness notes for each mark who made it and who owned the bucket then.
func witness(t *testing.T, db *pgtest.DB) {
	t.Helper()
	exec(t, db, `
CREATE TABLE marks (event_id uuid, by text, owner text);
CREATE FUNCTION note_mark() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO marks SELECT NEW.event_id, current_setting('application_name'), (
    SELECT r.name FROM ops.outbox_bucket_leases l JOIN ops.outbox_relays r ON r.relay = l.holder WHERE l.bucket = NEW.bucket);
  RETURN NULL;
END $$;
CREATE TRIGGER note_mark AFTER UPDATE OF published_at ON ops.domain_event_outbox FOR EACH ROW EXECUTE FUNCTION note_mark()`)
}

func checkMarks(t *testing.T, db *pgtest.DB) {
	t.Helper()
	if n := count(t, db, `SELECT count(*) FROM marks WHERE by IS DISTINCT FROM owner`); n != 0 {
		t.Errorf("%d marks by somebody who did not own the bucket", n)
	}
	if n := count(t, db, `SELECT count(*) - count(DISTINCT event_id) FROM marks`); n != 0 {
		t.Errorf("%d facts marked twice", n)
	}
}

// member starts a relay with sessions of its own, under its name.
func member(t *testing.T, db *pgtest.DB, name string, o relay.Options) *running {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.Options{DSN: db.DSN, MaxConns: 4, ApplicationName: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	o.Name = name
	return startOn(t, pool, o)
}

func buckets(t *testing.T, r *running) int { return int(r.metric(t, "rail_relay_buckets", "")) }

// Three relays share evenly; the buckets of one that dies move when its lease ends,
// and stay evenly shared.
func TestBucketsAreSharedAndMove(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	o := options(newBus())
	o.Lease = 1500 * time.Millisecond
	fleet := []*running{member(t, db, "a", o), member(t, db, "b", o), member(t, db, "c", o)}
	shared := func(least int, of ...*running) func() bool {
		return func() bool {
			all := 0
			for _, r := range of {
				n := buckets(t, r)
				all += n
				if n < least {
					return false
				}
			}
			return all == 64
		}
	}
	eventually(t, "64 buckets shared by three", shared(21, fleet...))
	died := time.Now()
	fleet[0].kill()
	eventually(t, "and by the two that are left", shared(32, fleet[1:]...))
	if took := time.Since(died); took > o.Lease+2*time.Second {
		t.Errorf("that took %s with a lease of %s", took, o.Lease)
	}
	fleet[1].stop()
	stopped := time.Now()
	eventually(t, "and by the last, after a stop", shared(64, fleet[2]))
	if took := time.Since(stopped); took > 2*time.Second {
		t.Errorf("after a stop that took %s", took)
	}
}

// field report 13, and a process that was stopped (SIGSTOP) with calls under way past
// its lease: what it then marks is refused, what it had not sent it does not send.
func TestASleeperMarksNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	witness(t, db)
	ids := facts(t, db, 300)
	asleep, awake := newBus(), newBus()
	under, release := make(chan struct{}, 100), make(chan struct{})
	asleep.set(func(ctx context.Context, n []nudge.Nudge) ([]nudge.Result, error) {
		under <- struct{}{}
		<-release
		return takeAll(ctx, n)
	})
	o := options(asleep)
	o.Lease = time.Second
	sleeper := member(t, db, "sleeper", o)
	for range 4 {
		<-under
	}
	sleeper.line.frozen.Lock()
	began := time.Now()
	o.Sinks[0].Publisher = awake
	member(t, db, "heir", o)
	eventually(t, "the heir has published everything", func() bool { return unpublished(t, db) == 0 })
	if took := time.Since(began); took > o.Lease+3*time.Second {
		t.Errorf("that took %s with a lease of %s", took, o.Lease)
	}
	sleeper.line.frozen.Unlock()
	close(release)
	eventually(t, "the sleeper's marks are refused", func() bool { return sleeper.metric(t, "rail_outbox_unowned_marks_total", "") == 40 })
	if n := sleeper.metric(t, "rail_outbox_published_total", ""); n != 0 {
		t.Errorf("the sleeper marked %v", n)
	}
	if n := asleep.callCount(); n != 4 {
		t.Errorf("it made %d calls past its lease", n-4)
	}
	awake.tookOnce(t, ids) // the heir
	checkMarks(t, db)
}

// chaos is a sink that does all that a sink may do.
func chaos(random func(int) int) func(context.Context, []nudge.Nudge) ([]nudge.Result, error) {
	return func(ctx context.Context, n []nudge.Nudge) ([]nudge.Result, error) {
		switch random(20) {
		case 0:
			return nil, errors.New("connection reset by peer")
		case 1:
			all, err := takeAll(ctx, n)
			return all[1:], err
		case 2:
			return slices.Repeat([]nudge.Result{{Verdict: nudge.Retry, Code: "ThrottlingException"}}, len(n)), nil
		}
		return each(func(n nudge.Nudge) nudge.Result {
			switch {
			case n.Name == "note.poison":
				return nudge.Result{Verdict: nudge.Final, Code: "MalformedDetail"}
			case random(20) == 0:
				return nudge.Result{Verdict: nudge.Retry, Code: "InternalFailure"}
			}
			return nudge.Result{Verdict: nudge.Sent}
		})(ctx, n)
	}
}

// writers commit facts in transactions that take their time, and roll some back
// (field report 8).
func writers(t *testing.T, db *pgtest.DB, n int, random func(int) int) {
	t.Helper()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range n / 4 {
				name := "document.uploaded"
				if i%50 == 0 {
					name = "note.poison"
				}
				sql := `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES (gen_random_uuid(), gen_random_uuid(), '` + name + `')`
				err := pg.InTx(t.Context(), db.Pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), sql); err != nil {
						return err
					}
					if _, err := tx.Exec(t.Context(), `SELECT pg_sleep($1::float8 / 1000)`, random(10)); err != nil {
						return err
					}
					if random(10) == 0 {
						return errGap
					}
					return nil
				})
				if err != nil && !errors.Is(err, errGap) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

var errGap = errors.New("a number that is never used")

// Whatever sinks do, and however often relays die, every fact is taken at least once
// before it is marked, marked by the owner of its bucket, or parked.
func TestEveryFactIsPublishedByItsOwnerOrParked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	witness(t, db)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	source := rand.New(rand.NewPCG(seed, 1))
	random := func(n int) int { mu.Lock(); defer mu.Unlock(); return source.IntN(n) }
	bus := newBus()
	bus.set(chaos(random))
	o := options(bus)
	o.Lease = 800 * time.Millisecond
	fleet := []*running{member(t, db, "r0", o), member(t, db, "r1", o), member(t, db, "r2", o)}

	var written atomic.Bool
	writing := make(chan struct{})
	go func() { defer close(writing); writers(t, db, 1200, random); written.Store(true) }()
	for i := 3; i < 9; i++ {
		victim := random(len(fleet))
		before := bus.callCount()
		eventually(t, "some calls", func() bool { return bus.callCount() > before+5 || written.Load() })
		if i%3 == 0 {
			fleet[victim].stop()
		} else {
			fleet[victim].kill()
		}
		fleet[victim] = member(t, db, fmt.Sprintf("r%d", i), o)
	}
	<-writing
	eventually(t, "all published or parked", func() bool {
		left, err := outbox.CountRemaining(t.Context(), db.Pool, time.Now().Add(time.Hour))
		return err == nil && left.Unpublished == left.Parked
	})
	if n := count(t, db, `SELECT count(*) FROM ops.domain_event_outbox WHERE (published_at IS NULL) <> (event_name = 'note.poison')`); n != 0 {
		t.Errorf("%d facts parked that are sound, or published that are not", n)
	}
	rows, err := db.Pool.Query(t.Context(), `SELECT event_id FROM ops.domain_event_outbox WHERE published_at IS NOT NULL`)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if bus.taken(id) == 0 {
			t.Errorf("%x is marked and no sink took it", id)
		}
	}
	checkMarks(t, db)
	t.Logf("%d facts published in %d calls", len(ids), bus.callCount())
}

// A backlog of 100,000 facts is read a hand at a time: memory stays under 100 MiB.
func TestMemoryIsBoundedWithALargeBacklog(t *testing.T) {
	t.Parallel()
	const n = 100_000
	db := pgtest.New(t)
	facts(t, db, n)
	var worst atomic.Uint64
	o := options(publisherFunc(func(ctx context.Context, n []nudge.Nudge) ([]nudge.Result, error) {
		var m runtime.MemStats
		if rand.IntN(20) == 0 {
			runtime.ReadMemStats(&m)
			worst.Store(max(worst.Load(), m.HeapInuse))
		}
		return takeAll(ctx, n)
	}))
	begin := time.Now()
	r := start(t, db, o)
	// a part of the backlog tells what the whole costs: what is held is a batch
	const part = n / 10
	eventually(t, "a part is drained", func() bool { return r.metric(t, "rail_outbox_published_total", "") >= part })
	t.Logf("%d of %d facts in %s, at most %d MiB of heap", part, n, time.Since(begin).Round(time.Millisecond), worst.Load()>>20)
	if worst.Load() > 100<<20 {
		t.Errorf("heap of %d MiB", worst.Load()>>20)
	}
}

// While somebody holds an old snapshot, published facts cannot be cleared away and lie
// in the index in front of new ones; a relay reads past them rarely.
func TestAnOldSnapshotDoesNotSlowARelay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	snapshot, err := db.Pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = snapshot.Rollback(t.Context()) }()
	if _, err := snapshot.Exec(t.Context(), `SELECT count(*) FROM ops.domain_event_outbox`); err != nil {
		t.Fatal(err)
	}
	r := start(t, db, options(publisherFunc(takeAll)))
	var took [5]time.Duration
	for i := range took {
		facts(t, db, 8000)
		begin := time.Now()
		eventually(t, "drained", func() bool { return r.metric(t, "rail_outbox_published_total", "") == float64(8000*(i+1)) })
		took[i] = time.Since(begin)
	}
	t.Logf("8,000 facts each time: %v", took)
	if slow := 10*max(took[0], took[1]) + 10*time.Second; took[4] > slow {
		t.Errorf("the last took %s, the first %s", took[4], took[0])
	}
}

type publisherFunc func(context.Context, []nudge.Nudge) ([]nudge.Result, error)

func (f publisherFunc) Publish(ctx context.Context, n []nudge.Nudge) ([]nudge.Result, error) {
	return f(ctx, n)
}
