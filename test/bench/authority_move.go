package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"briefrail/internal/authority"
	"briefrail/internal/authority/rivals"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// The bucket that moves, one that stays, and how many matters the first has.
const (
	bucketMatters = 1000
	moving        = "matters/bucket-07"
	staying       = "matters/bucket-08"
	fencedDB      = "fenced"
	startWithin   = 2 * time.Second // a closing that has not begun by then is starved
)

type design struct{ name, sql, asked string }

func designs() []design {
	return []design{
		{"judging each commit", "", "0 late, 0 starved"},
		{"a lock of the fence's row (FOR SHARE)", rivals.RowLock(), "turned down"},
		{"a lock at the admission only", rivals.AdmissionOnly, "turned down"},
		{"a horizon of transaction ids", rivals.Horizon(), "turned down"},
	}
}

// fencedSQL is an old writer with a thousand matters in one bucket, all imported, and a
// journal for each side. The one role of this server stands for everybody.
const fencedSQL = `
SELECT ops.register_writer('rail', 'rail', ARRAY[current_user::text], NULL, NULL, 'bench', 'bench');
SELECT ops.register_writer('old', 'external', ARRAY[current_user::text], current_user::text, 'http://old.example/', 'bench', 'bench');
SELECT ops.configure_fences((SELECT array_agg(ops.fence_scope(b::smallint)) FROM generate_series(0, 63) b), 'old', 'bench', 'bench');
CREATE TABLE public.old_briefs (matter_id uuid PRIMARY KEY, firm_id uuid NOT NULL, revision bigint GENERATED ALWAYS AS IDENTITY, brief jsonb NOT NULL);
CREATE INDEX ON public.old_briefs (ops.matter_bucket(matter_id), revision);
INSERT INTO public.old_briefs (matter_id, firm_id, brief)
SELECT u, md5('firm' || i %% 10)::uuid, '%[1]s' FROM (SELECT i, md5('moving' || i)::uuid AS u FROM generate_series(1, 200000) i) m WHERE ops.matter_bucket(u) = 7 LIMIT %[2]d;
SELECT count(ops.import_frame(firm_id, matter_id, revision, brief, '\x%[3]x', '1', 'old')) FROM (SELECT * FROM public.old_briefs ORDER BY revision) b;
SELECT ops.guard_table('public.old_briefs', 'matter_id', NULL, 'old', 'revision', NULL, 'bench', 'bench');
CREATE TABLE public.written_old (scope text NOT NULL, matter_id uuid NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE public.written_rail (LIKE public.written_old INCLUDING ALL);
CREATE INDEX ON public.written_old (scope);
CREATE INDEX ON public.written_rail (scope)`

// fenced makes the database that the others are copies of.
func (b *bench) fenced(ctx context.Context) error {
	l, err := landing(noClaim())
	if err != nil {
		return err
	}
	conn, err := b.migrated(ctx, fencedDB)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range []string{fmt.Sprintf(fencedSQL, frame, bucketMatters, l.Digest), `VACUUM (ANALYZE)`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%.60s: %w", sql, err)
		}
	}
	return nil
}

// A move is one bucket on its way there and back while clients write.
type move struct {
	pool    *pgxpool.Pool
	c       authority.Controller
	matter  [2]string // of the bucket that moves, and of the one that stays
	heads   []authority.Head
	clients int
	work    time.Duration
	slow    atomic.Bool // one write in some takes longer than any grace

	watchOthers   bool
	others        samples
	othersRefused atomic.Int64
	accepted      atomic.Int64
	gate          sync.RWMutex // held by each write; a starved closing is taken back between them

	mu               sync.Mutex
	side             int // whose the bucket is: 0 the old writer, 1 the rail
	refused, allowed time.Time
	pauses           []time.Duration
	sealed           [2]int64
	late, starved    int64
}

// samples of times, taken by many.
type samples struct {
	mu   sync.Mutex
	took []float64
}

func (s *samples) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, float64(d.Microseconds())/1000)
}

// take returns what was noted, and begins anew.
func (s *samples) take() []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.took
	s.took = nil
	return took
}

// constant: the two writers
var sides = [2]string{"old", "rail"}

// newMove sets a design up in a database of its own.
func (b *bench) newMove(ctx context.Context, sql string, clients int, work time.Duration) (*move, error) {
	if !b.fencedMade {
		if err := b.fenced(ctx); err != nil {
			return nil, err
		}
		b.fencedMade = true
	}
	db := fencedDB + "_" + rail.NewUUID().String()[:8]
	if err := b.database(ctx, db, fencedDB); err != nil {
		return nil, err
	}
	pool, err := b.pool(ctx, db, clients+16)
	if err != nil {
		return nil, err
	}
	m := &move{pool: pool, clients: clients, work: work, c: authority.Controller{DB: pool, Actor: authority.Actor{Name: "bench", Reason: "bench"}}}
	if sql != "" {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	for i, scope := range []string{moving, staying} {
		err := pool.QueryRow(ctx, `SELECT u::text FROM (SELECT md5('moving' || i)::uuid AS u FROM generate_series(1, 20000) i) m WHERE ops.fence_scope(ops.matter_bucket(u)) = $1 LIMIT 1`, scope).Scan(&m.matter[i])
		if err != nil {
			return nil, err
		}
	}
	for _, side := range sides {
		if err := m.c.Guard(ctx, authority.Guard{Table: "public.written_" + side, Key: "matter_id", Writer: side}); err != nil {
			return nil, err
		}
	}
	m.heads, err = oldHeads(ctx, pool)
	return m, err
}

func oldHeads(ctx context.Context, db pg.DB) ([]authority.Head, error) {
	l, err := landing(noClaim())
	if err != nil {
		return nil, err
	}
	rows, err := db.Query(ctx, `SELECT firm_id, matter_id, revision FROM public.old_briefs`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (authority.Head, error) {
		h := authority.Head{Digest: l.Digest[:]}
		err := row.Scan(&h.Key.Firm, &h.Key.Matter, &h.Revision)
		return h, err
	})
}

// run has the clients write while do lasts.
func (m *move) run(ctx context.Context, do func(context.Context) error) error {
	defer m.pool.Close()
	return beside(ctx, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for i := range m.clients {
			group.Go(func() error { return m.client(ctx, i) })
		}
		if m.watchOthers {
			for range 2 {
				group.Go(func() error { return m.other(ctx) })
			}
		}
		return group.Wait()
	}, do)
}

// crossings moves authority so often, each time the other way.
func (m *move) crossings(ctx context.Context, n int) error {
	for range n {
		if err := m.cross(ctx); err != nil {
			return err
		}
	}
	return nil
}

// crossFor moves it to and fro for a while.
func (m *move) crossFor(ctx context.Context, d time.Duration) error {
	for until := time.Now().Add(d); time.Now().Before(until); {
		if err := m.cross(ctx); err != nil {
			return err
		}
	}
	return nil
}

// cross takes the steps one by one: the seal also counts, to tell later what came late.
func (m *move) cross(ctx context.Context) error {
	from, to := m.turn()
	id := rail.NewUUID()
	if err := m.planned(ctx, id, to); err != nil {
		return err
	}
	err := m.steps(ctx, id, from, to)
	if pg.SQLState(err) == stopped && ctx.Err() == nil { // somebody writes at any time
		m.starved++
		m.gate.Lock() // what could not close would not be taken back either
		defer m.gate.Unlock()
		_, err = m.c.Abort(ctx, id)
		return err
	}
	if err != nil {
		return err
	}
	if err := m.afterwards(ctx, from); err != nil {
		return err
	}
	m.gate.Lock() // as in planned
	defer m.gate.Unlock()
	_, err = m.c.Complete(ctx, id)
	return err
}

// planned is what comes before a closing. It is not measured, and each step takes the
// row of the fence: between writes, as they would keep it from a rival for ever.
func (m *move) planned(ctx context.Context, id rail.UUID, to int) error {
	m.gate.Lock()
	defer m.gate.Unlock()
	for _, sql := range []string{
		`SELECT ops.plan_change('%s', '` + moving + `', '` + sides[to] + `', NULL, '{"deadline_ms": 10000}', '{}', 'bench', 'bench')`,
		`SELECT ops.shadow_change('%s', '{}', 'bench', 'bench')`,
	} {
		if _, err := m.pool.Exec(ctx, fmt.Sprintf(sql, id)); err != nil {
			return err
		}
	}
	return nil
}

// stopped is the state of a statement that took too long.
const stopped = "57014"

// steps takes them on one connection, rehearsed, as Cross does.
func (m *move) steps(ctx context.Context, id rail.UUID, from, to int) error {
	c, release, err := m.c.Alone(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := c.Rehearse(ctx, authority.Change{ID: id, Scope: moving, From: sides[from], To: sides[to]}); err != nil {
		return err
	}
	if err := m.closes(ctx, c, id); err != nil {
		return err
	}
	if _, err := c.Drain(ctx, id); err != nil {
		return err
	}
	ch, err := m.seal(ctx, c, id, from)
	if err != nil {
		return err
	}
	heads := func(context.Context, string, int64) ([]authority.Head, error) { return m.heads, nil }
	if _, _, err = c.Verify(ctx, ch.ID, heads); err != nil {
		return err
	}
	if ch, err = c.Advance(ctx, id); err != nil {
		return err
	}
	if ch.Outcome != "advanced" {
		return fmt.Errorf("a crossing ended %s (%s)", ch.Phase, ch.Outcome)
	}
	return nil
}
