package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"briefrail/internal/pg"
	"briefrail/internal/pg/local"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// load is a number of facts that concurrent producers commit, some late, some
// never.
type load struct {
	keys      []rail.Key
	facts     int
	producers int
	pause     time.Duration // longest, within each transaction

	committed atomic.Int64
	unsure    atomic.Int64 // commits whose answer was lost
}

var errRolledBack = errors.New("the producer changed its mind")

// run returns once every fact is committed. A producer whose database is away
// starts its transaction again.
func (l *load) run(ctx context.Context, db pg.Beginner) error {
	var g errgroup.Group
	for p := range l.producers {
		g.Go(func() error {
			for i := p; i < l.facts; i += l.producers {
				if err := l.produce(ctx, db, l.keys[(i*7919)%len(l.keys)]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (l *load) produce(ctx context.Context, db pg.Beginner, k rail.Key) error {
	for ctx.Err() == nil {
		err := pg.InTx(ctx, db, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, $3)`, k.Firm, k.Matter, uploaded)
			if err != nil {
				return err
			}
			rest(ctx, rand.N(l.pause+1))
			if rand.N(20) == 0 {
				return errRolledBack
			}
			return nil
		})
		switch {
		case err == nil:
			l.committed.Add(1)
			return nil
		case errors.Is(err, pg.ErrUnknownOutcome):
			l.unsure.Add(1)
			return nil
		case !errors.Is(err, errRolledBack) && !pg.IsTransient(err) && !pg.IsUnknownOutcome(err):
			return err
		}
		rest(ctx, 10*time.Millisecond)
	}
	return ctx.Err()
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// slow answers after a random time.
func slow(most time.Duration) func(context.Context, http.ResponseWriter, call) {
	return func(ctx context.Context, w http.ResponseWriter, c call) {
		rest(ctx, rand.N(most))
		answer(w, c)
	}
}

// killer keeps three workers up and kills one of them at random every now and then.
func killer(t *testing.T, s settings, until <-chan struct{}, every time.Duration) (kills int) {
	var fleet [3]*process
	for i := range fleet {
		fleet[i] = launch(t, s, "run")
	}
	for {
		select {
		case <-until:
			return kills
		case <-time.After(every/2 + rand.N(every)):
			i := rand.N(len(fleet))
			fleet[i].kill()
			fleet[i] = launch(t, s, "run")
			kills++
		}
	}
}

// reaper kills the build service at random every now and then, for a moment.
func reaper(t *testing.T, s *service, until <-chan struct{}, every time.Duration) (deaths int) {
	for {
		select {
		case <-until:
			return deaths
		case <-t.Context().Done():
			return deaths
		case <-time.After(every/2 + rand.N(every)):
			s.die()
			rest(t.Context(), 50*time.Millisecond+rand.N(150*time.Millisecond))
			s.revive(t)
			deaths++
		}
	}
}

// Workers and the build service are killed for as long as the load lasts. Nothing is lost, nothing stale
// lands, nothing is built more often than it was asked for, but for retries.
func TestLoadSurvivesKilledWorkers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	builder := serve(t, slow(40*time.Millisecond))
	s := quick(db.DSN, builder.URL).with(settings{"RETRY_MAX_ATTEMPTS": "100", "FRAMES_KEEP": "10000"})
	l := &load{keys: newKeys(10, 500), facts: 5000, producers: 8, pause: time.Duration(sized(20, 60)) * time.Millisecond}
	done := make(chan struct{})
	var kills, deaths int
	var fleet sync.WaitGroup
	fleet.Go(func() { kills = killer(t, s, done, 700*time.Millisecond) })
	fleet.Go(func() { deaths = reaper(t, builder, done, 2*time.Second) })
	begun := time.Now()
	if err := l.run(t.Context(), db.NewPool(t, 8)); err != nil {
		t.Error(err)
	}
	loaded := time.Since(begun)
	awaitQuiet(t, db.Pool, 2*time.Minute)
	close(done)
	fleet.Wait()
	awaitQuiet(t, db.Pool, time.Minute)
	assertCurrent(t, db.Pool)
	assertCalls(t, db.Pool, builder)
	told := one[int](t, db.Pool, `SELECT count(*) FROM ops.domain_event_outbox WHERE event_name = $1`, uploaded)
	if int64(told) != l.committed.Load() {
		t.Errorf("%d facts committed, %d in the outbox", l.committed.Load(), told)
	}
	t.Logf("%d facts, %d builder calls, %d kills, %d deaths of the builder, load %s, current after %s; runs: %s", told, builder.count(), kills, deaths,
		loaded.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond),
		one[string](t, db.Pool, `SELECT jsonb_object_agg(outcome, n)::text FROM (SELECT outcome, count(*) AS n FROM ops.matter_frame_runs GROUP BY 1) s`))
}

// assertCalls: every call of the builder belongs to a run, and runs that landed are
// at most the facts of their matter (assertSound); so calls are at most facts and
// retries. A run calls once, but for a call that was lost with its connection.
func assertCalls(t *testing.T, db pg.DB, s *service) {
	t.Helper()
	runs := map[rail.UUID]int{}
	for _, c := range s.seen() {
		runs[c.Run]++
	}
	if again := s.count() - len(runs); again > s.repeatable() {
		t.Errorf("%d calls came again, and %d connections were cut in a call", again, s.repeatable())
	}
	if n := one[int](t, db, `SELECT count(*) FROM ops.matter_frame_runs`); len(runs) > n {
		t.Errorf("%d runs called, %d in the ledger", len(runs), n)
	}
}

// The server is killed in the middle, twice. The workers come back by themselves;
// meanwhile they are alive and not ready.
func TestLoadSurvivesKilledServer(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Cluster(t, local.Options{Settings: map[string]string{"shared_buffers": "64MB"}})
	db := pgtest.NewOn(t, cluster, pgtest.Ops())
	builder := serve(t, slow(40*time.Millisecond))
	s := quick(db.DSN, builder.URL).with(settings{"RETRY_MAX_ATTEMPTS": "100", "FRAMES_KEEP": "10000"})
	a, b := startWorker(t, s), startWorker(t, s)
	l := &load{keys: newKeys(sized(5, 10), sized(100, 500)), facts: sized(800, 5000), producers: sized(4, 8), pause: 20 * time.Millisecond}
	loading := make(chan error, 1)
	go func() { loading <- l.run(t.Context(), db.NewPool(t, 8)) }()
	for round := range 2 {
		want := (round + 1) * l.facts / 4
		eventually(t, time.Minute, "a part of the load is in", func() bool { return int(l.committed.Load()) > want })
		cluster.Kill()
		for _, w := range []*process{a, b} {
			eventually(t, 20*time.Second, "not ready without its database", func() bool { return !w.ready() })
			if code, body := w.probe("/livez"); code != http.StatusOK {
				t.Errorf("livez without a database: %d %s", code, body)
			}
		}
		if err := cluster.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		eventually(t, 30*time.Second, "ready again", func() bool { return a.ready() && b.ready() })
		t.Logf("ready %s after the server was back", time.Since(back).Round(time.Millisecond))
	}
	if err := <-loading; err != nil {
		t.Fatal(err)
	}
	awaitQuiet(t, db.Pool, time.Minute)
	assertCurrent(t, db.Pool)
	assertCalls(t, db.Pool, builder)
	told := one[int64](t, db.Pool, `SELECT count(*) FROM ops.domain_event_outbox WHERE event_name = $1`, uploaded)
	if low, high := l.committed.Load(), l.committed.Load()+l.unsure.Load(); told < low || told > high {
		t.Errorf("%d facts in the outbox, %d to %d committed", told, low, high)
	}
	if a.gone() || b.gone() {
		t.Error("a worker ended")
	}
}
