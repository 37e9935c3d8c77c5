package jobs_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
)

// built has n matters of ten firms demanded, claimed and landed long ago: they are
// what is dead in the indexes.
func built(t *testing.T, db *pgtest.DB, n int) {
	t.Helper()
	unguarded(t, db, `
INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status, requested_generation, demands_owed, owed_since, queued_at, not_before, priority)
SELECT md5((i % 10)::text)::uuid, gen_random_uuid(), 'queued', 1, 1, now(), now() - interval '1 hour' + i * interval '1 ms', now(), i % 3
  FROM generate_series(1, $1::int) i`, n)
	unguarded(t, db, `
UPDATE ops.matter_frame_jobs SET run_status = 'running', claimed_generation = 1, run_id = gen_random_uuid(), attempts = 1,
       claimed_at = queued_at, lease_expires_at = queued_at WHERE queued_at < now() - interval '30 minutes'`)
	unguarded(t, db, `
UPDATE ops.matter_frame_jobs SET run_status = 'idle', landed_generation = 1, run_id = NULL, claimed_at = NULL, lease_expires_at = NULL,
       owed_since = NULL, demands_owed = 0 WHERE claimed_at < now() - interval '30 minutes'`)
}

// reach is what is asked of a database where looks at everything are dear.
func reach(t *testing.T, db pg.DB) jobs.Reach {
	t.Helper()
	h := &jobs.Horizon{}
	isDear(h)
	r := h.Next(t.Context(), db)
	if r.All() {
		t.Fatal("no reach")
	}
	return r
}

// isDear has a horizon learn, look by look, that looks at everything take a minute.
func isDear(h *jobs.Horizon) {
	for range 20 {
		h.Looked(jobs.Reach{}, time.Minute)
	}
}

// Under an old snapshot a claim, its timer and the sweep touch as many pages as
// without: less than the indexes alone that lie before their reach.
func TestAReachSparesWhatIsDead(t *testing.T) {
	t.Parallel()
	const dead = 20_000
	db := pgtest.New(t)
	live := func() {
		for i := range 10 {
			k := rail.Key{Firm: value[rail.UUID](t, db, `SELECT md5($1::int::text)::uuid`, i), Matter: rail.NewUUID()}
			ask(t, db, k, 1, rail.Bulk)
			age(t, db, k, 11*time.Second)
		}
		claim(t, db, 5)
	}
	looks := map[string]func(pg.DB, jobs.Reach) error{
		"claim": func(db pg.DB, r jobs.Reach) error {
			o := options()
			o.Reach = r
			_, err := runs.Claim(t.Context(), db, 4, o)
			return err
		},
		"timer": func(db pg.DB, r jobs.Reach) error { _, err := jobs.NextDue(t.Context(), db, r); return err },
		"sweep": func(db pg.DB, r jobs.Reach) error {
			return db.QueryRow(t.Context(), sweep.ExpireSQL(), pgx.NamedArgs{
				"batch": 10, "live_since": r.LiveSince(), "error": "", "permanent": false, "max_attempts": 3,
				"backoff": time.Second, "backoff_max": time.Second, "retry_after": "0", "fact": "brief.parked",
			}).Scan()
		},
	}
	pages := func(name string, r jobs.Reach) int {
		return db.Pages(t, func(db pg.DB) error { return looks[name](db, r) })
	}
	live()
	before := map[string]int{}
	for name := range looks {
		before[name] = pages(name, jobs.Reach{})
	}
	db.HoldSnapshot(t)
	built(t, db, dead)
	for _, statistics := range []string{`SELECT`, `ANALYZE ops.matter_frame_jobs`} { // none, and those of an empty queue
		exec(t, db, statistics)
		r := reach(t, db.Pool)
		for name := range looks {
			all, with := pages(name, jobs.Reach{}), pages(name, r)
			// an entry of an index takes a hundredth of a page
			if limit := before[name] + dead/50; all < 3*with || with > limit {
				t.Errorf("%s after %s: %d pages with all and %d within reach; want a third at most, and no more than %d", name, statistics, all, with, limit)
			}
		}
	}
}

// A reach knows by its key what is older and may be claimed while it lasts.
func TestAReachKnowsTheOlder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lead  func(*testing.T, *pgtest.DB, rail.Key)
		knows bool
	}{
		"nothing": {func(*testing.T, *pgtest.DB, rail.Key) {}, false},
		"settling": {func(t *testing.T, db *pgtest.DB, k rail.Key) {
			ask(t, db, k, 1, rail.Bulk)
			unguarded(t, db, `UPDATE ops.matter_frame_jobs SET queued_at = now() - interval '1 hour', not_before = now() + interval '1 hour'`)
		}, true},
		"just queued":            {func(t *testing.T, db *pgtest.DB, k rail.Key) { ask(t, db, k, 1, rail.Bulk) }, false},
		"backing off, soon due":  {backsOff(30 * time.Second), true},
		"backing off, due later": {backsOff(time.Hour), false},
		"of a firm that is paused": {func(t *testing.T, db *pgtest.DB, k rail.Key) {
			ask(t, db, k, 1, rail.Bulk)
			age(t, db, k, time.Hour)
			exec(t, db, `INSERT INTO ops.dispatch_pauses (firm_id, paused_by, reason) VALUES ($1, 'op', 'why')`, k.Firm)
		}, false},
		"demand during a build": {func(t *testing.T, db *pgtest.DB, k rail.Key) {
			start(t, db, k)
			ask(t, db, k, 1, rail.Bulk)
			age(t, db, k, time.Hour)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, k := pgtest.New(t), newKey()
			c.lead(t, db, k)
			if r := reach(t, db.Pool); slices.Contains(r.Older, k) != c.knows || time.Since(r.Queued) > time.Minute {
				t.Errorf("it goes back %s and knows %v", time.Since(r.Queued), r.Older)
			}
		})
	}
}

// Older rows are claimed in their place, by their keys while they are few, and
// otherwise because the reach is as old as they are.
func TestWhatIsOlderThanAReachIsClaimed(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 300} {
		db, fresh, last := pgtest.New(t), newKey(), newKey()
		for i := range n {
			k := rail.Key{Firm: fresh.Firm, Matter: rail.NewUUID()}
			if i == 0 {
				k = last // the only one of its firm
			}
			ask(t, db, k, 1, rail.Standard)
		}
		unguarded(t, db, `UPDATE ops.matter_frame_jobs SET queued_at = now() - interval '1 hour', not_before = now()`)
		o := options()
		o.Reach = reach(t, db.Pool)
		if few := len(o.Reach.Older) > 0; few != (n == 3) {
			t.Errorf("%d known of %d", len(o.Reach.Older), n)
		}
		ask(t, db, fresh, 1, rail.Interactive)
		got, err := runs.Claim(t.Context(), db.Pool, n+1, o)
		if err != nil || len(got) != n+1 {
			t.Fatalf("claimed %d, %v; want %d", len(got), err, n+1)
		}
		at := func(k rail.Key) int { return slices.IndexFunc(got, func(c runs.Claimed) bool { return c.Key == k }) }
		if at(fresh) < 0 || at(last) < 0 {
			t.Errorf("neither the newest nor the only one of a firm may be missing: %d, %d", at(fresh), at(last))
		}
	}
}

func backsOff(due time.Duration) func(*testing.T, *pgtest.DB, rail.Key) {
	return func(t *testing.T, db *pgtest.DB, k rail.Key) {
		fail(t, db, start(t, db, k), time.Second, 6)
		unguarded(t, db, `UPDATE ops.matter_frame_jobs SET queued_at = now() - interval '1 hour', not_before = now() + $1::interval`, due)
	}
}

// A reach moves on by itself: what it knew and what has grown old since is known, and
// what was claimed is not.
func TestAReachMovesOn(t *testing.T) {
	t.Parallel()
	db, h := pgtest.New(t), &jobs.Horizon{}
	isDear(h)
	known := func() rail.Key {
		k := newKey()
		ask(t, db, k, 1, rail.Bulk)
		age(t, db, k, 3*time.Second)
		return k
	}
	gone, stays := known(), known()
	first := h.Next(t.Context(), db.Pool)
	start(t, db, gone)
	grows := newKey()
	ask(t, db, grows, 1, rail.Bulk)
	late := known() // was not there, and is older than what was read
	deadline := time.Now().Add(30 * time.Second)
	next := first
	for !slices.Contains(next.Older, grows) && time.Now().Before(deadline) {
		next = h.Next(t.Context(), db.Pool)
	}
	for k, want := range map[rail.Key]bool{gone: false, stays: true, grows: true, late: false} {
		if slices.Contains(next.Older, k) != want {
			t.Errorf("%s: known %v", k, !want)
		}
	}
	if !slices.Contains(first.Older, gone) || !next.Queued.After(first.Queued) {
		t.Errorf("from %+v to %+v", first, next)
	}
}

// What runs for long is counted by its firm although no claim looks at it, and the
// sweep's bound is before it.
func TestAReachKnowsWhatRuns(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	busy, other := rail.NewUUID(), rail.NewUUID()
	long, short := rail.Key{Firm: busy, Matter: rail.NewUUID()}, rail.Key{Firm: busy, Matter: rail.NewUUID()}
	start(t, db, long)
	age(t, db, long, time.Hour)
	start(t, db, short)
	r := reach(t, db.Pool)
	if !slices.Equal(r.Running, []rail.UUID{busy}) || time.Since(r.Live) < time.Hour {
		t.Errorf("%+v", r)
	}
	first, second := rail.Key{Firm: busy, Matter: rail.NewUUID()}, rail.Key{Firm: other, Matter: rail.NewUUID()}
	for _, k := range []rail.Key{first, second} {
		ask(t, db, k, 1, rail.Interactive)
	}
	start(t, db, rail.Key{Firm: other, Matter: rail.NewUUID()}) // one of the other's, and two of the busy one's
	o := options()
	o.Reach = r
	if got, err := runs.Claim(t.Context(), db.Pool, 1, o); err != nil || len(got) != 1 || got[0].Key != second {
		t.Errorf("claimed %+v, %v; want the firm that runs less", got, err)
	}
	o.PerFirm = 3
	land(t, db, runs.Claimed{Claim: claimOf(t, db, long)}) // which the reach does not know
	if got, err := runs.Claim(t.Context(), db.Pool, 1, o); err != nil || len(got) != 1 || got[0].Key != first {
		t.Errorf("claimed %+v, %v; a limit counts what runs now", got, err)
	}
}

func claimOf(t *testing.T, db *pgtest.DB, k rail.Key) (c jobs.Claim) {
	t.Helper()
	c.Key = k
	err := db.Pool.QueryRow(t.Context(), `SELECT claimed_generation, run_id FROM ops.matter_frame_jobs WHERE firm_id = $1 AND matter_id = $2`,
		k.Firm, k.Matter).Scan(&c.Token.Generation, &c.Token.Run)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What was not claimable and is older than a reach waits for the next look at
// everything, and so does nothing else.
func TestALookAtEverythingFindsWhatAReachMisses(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	paused, fresh := newKey(), newKey()
	ask(t, db, paused, 1, rail.Interactive)
	age(t, db, paused, time.Hour)
	exec(t, db, `INSERT INTO ops.dispatch_pauses (firm_id, paused_by, reason) VALUES ($1, 'op', 'why')`, paused.Firm)
	o := options()
	o.Reach = reach(t, db.Pool)
	exec(t, db, `DELETE FROM ops.dispatch_pauses`)
	ask(t, db, fresh, 1, rail.Interactive)
	for _, want := range []rail.Key{fresh, paused} {
		got, err := runs.Claim(t.Context(), db.Pool, 5, o)
		if err != nil || len(got) != 1 || got[0].Key != want {
			t.Errorf("claimed %+v, %v; want %s", got, err, want)
		}
		o.Reach = jobs.Reach{}
	}
}

// asked is a database that counts how often it is asked, and has an answer.
type asked struct {
	pg.DB
	times int
	at    time.Time
}

func (a *asked) QueryRow(context.Context, string, ...any) pgx.Row { a.times++; return a }

func (a *asked) Scan(to ...any) error {
	*to[0].(*time.Time) = a.at
	return nil
}

func TestEveryLookIsAtEverythingWhileThatIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, h := &asked{at: time.Now()}, &jobs.Horizon{}
		for range 100 {
			r := h.Next(t.Context(), db)
			if !r.All() {
				t.Fatal("a bound on a healthy server")
			}
			time.Sleep(3 * time.Millisecond)
			h.Looked(r, 3*time.Millisecond)
		}
		if db.times != 0 {
			t.Errorf("asked %d times", db.times)
		}
	})
}

func TestDearLooksTakeATwentiethOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, h := &asked{at: time.Now()}, &jobs.Horizon{}
		for range 5 { // it learns
			h.Looked(jobs.Reach{}, 100*time.Millisecond)
		}
		begun, dear := time.Now(), time.Duration(0)
		for time.Since(begun) < time.Minute {
			r, took := h.Next(t.Context(), db), 2*time.Millisecond
			if r.All() {
				took = 100 * time.Millisecond
				dear += took
			}
			time.Sleep(took)
			h.Looked(r, took)
		}
		if share := dear.Seconds() / time.Since(begun).Seconds(); share > 1./20 || share < 1./25 || db.times > 600 {
			t.Errorf("%.3f of the time, asked %d times", share, db.times)
		}
		isDear(h) // however dear
		if h.Next(t.Context(), db).All() {
			t.Error("a second look at once")
		}
		time.Sleep(time.Minute)
		if !h.Next(t.Context(), db).All() {
			t.Error("no look after a minute")
		}
	})
}

func TestAStallIsNotTakenForDearLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, h := &asked{at: time.Now()}, &jobs.Horizon{}
		h.Looked(jobs.Reach{}, time.Millisecond)
		h.Looked(jobs.Reach{}, 10*time.Second)
		if h.Next(t.Context(), db).All() {
			t.Error("a second look at once")
		}
		time.Sleep(100 * time.Millisecond)
		if !h.Next(t.Context(), db).All() {
			t.Error("no look after a twentieth of what was cheap before")
		}
	})
}
