package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"briefrail/internal/nudge"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
	"briefrail/internal/trigger"
)

// What passes in a run with retention on. Weeks are squeezed into minutes: facts
// come as fast as the rail takes them, settle a little, and are kept for seconds.
const (
	loadBatch     = 200 // facts a transaction of the producer
	loadFirms     = 50
	loadPerMatter = 10 // facts of the whole run
	loadSettle    = 2 * time.Second
	loadMaxWait   = 20 * time.Second
	loadAsked     = 1000 // matters of people who wait for the claim
	askedEvery    = 50 * time.Millisecond
	mostAhead     = 20 // transactions that are not both sent and decided
	keptFor       = 5 * time.Second
	// how long, and how many, sent facts may be overdue before the producer waits, and
	// after how many transactions it asks
	mostOverdue  = 10 * time.Second
	loadOverdue  = 5000
	askRetention = 10
)

// load is the whole rail at work in one database, and what was noted of it since
// the last phase began.
type load struct {
	pool    *pgxpool.Pool
	matters int
	first   int64 // the last fact that was there before, which nobody has decided

	mu sync.Mutex
	// the instants from which watched facts wait, by event and by matter
	waiting map[rail.UUID]time.Time
	took    map[string][]time.Duration // by kind
}

// What is timed: two waits of facts, and statements.
const (
	toSent  = "a fact's commit to its sending"
	toClaim = "a fact's commit to the claim"
	reading = "relay's reading of the outbox"
	marking = "relay's mark"
	taking  = "trigger's look for facts"
	claim   = "claim"
)

// constant: the statements that are timed, told by their words
var statements = []struct{ kind, words string }{
	{reading, "fresh AS ("},
	{marking, "marked AS ("},
	{taking, "FOR UPDATE OF u SKIP LOCKED"},
	{claim, "INSERT INTO ops.matter_frame_runs"},
}

func (b *bench) newLoad(ctx context.Context, db string) (*load, error) {
	l := &load{matters: b.plan.facts / loadPerMatter, waiting: map[rail.UUID]time.Time{}, took: map[string][]time.Duration{}}
	cfg, err := pgxpool.ParseConfig(b.cluster.DSN(db))
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.ConnConfig.Tracer = 24, l
	cfg.AfterConnect = func(_ context.Context, c *pgx.Conn) error { pg.RegisterTypes(c); return nil }
	if l.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	return l, l.pool.QueryRow(ctx, `SELECT coalesce(max(seq), 0) FROM ops.domain_event_outbox`).Scan(&l.first)
}

// run has the rail work while do lasts.
func (l *load) run(ctx context.Context, do func(context.Context) error) error {
	work := worker{
		pool: l.pool, builder: (*noting)(l), maxWait: loadMaxWait,
		keep: sweep.Retention{Outbox: keptFor, Receipts: 2 * keptFor, Runs: keptFor, Frames: 1, Every: time.Second},
		rules: []trigger.Rule{
			{Name: "document.uploaded", Priority: rail.Standard, Quiet: loadSettle},
			{Name: "brief.requested", Priority: rail.Interactive},
		},
	}
	return beside(ctx, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return newRelay(l.pool, (*mostlyTakes)(l)).Run(ctx) })
		group.Go(func() error { return work.run(ctx) })
		group.Go(func() error { return l.ask(ctx) })
		return group.Wait()
	}, do)
}

// times hands over what was noted, and begins anew.
func (l *load) times() map[string][]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := l.took
	l.took = map[string][]time.Duration{}
	return took
}

const produceSQL = `
INSERT INTO ops.domain_event_outbox (event_id, firm_id, matter_id, event_name)
SELECT CASE WHEN i = 1 THEN $1::uuid ELSE gen_random_uuid() END, md5('firm' || m % $2)::uuid, md5('matter' || m)::uuid, 'document.uploaded'
  FROM (SELECT i, (random() * $3)::integer AS m FROM generate_series(1, $4::integer) i) f`

// produce has so many facts committed, at a rate where one is given, and otherwise
// as fast as the slowest of relay, trigger and retention takes them.
func (l *load) produce(ctx context.Context, facts, rate int) error {
	var open []rail.UUID // one of each transaction that is not both sent and decided
	begun := time.Now()
	for done := 0; done < facts; done += loadBatch {
		if rate > 0 {
			if err := pause(ctx, time.Until(begun.Add(time.Duration(done)*time.Second/time.Duration(rate)))); err != nil {
				return err
			}
		}
		for len(open) >= mostAhead {
			through, err := l.through(ctx, open[0])
			if err != nil {
				return err
			}
			if through {
				open = open[1:]
				continue
			}
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
		if rate == 0 && done%(askRetention*loadBatch) == 0 {
			if err := l.awaitRetention(ctx); err != nil {
				return err
			}
		}
		event := rail.NewUUID()
		l.watch(event)
		if _, err := l.pool.Exec(ctx, produceSQL, event, loadFirms, l.matters, loadBatch); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		l.committed(event)
		open = append(open, event)
	}
	return nil
}

// awaitRetention waits while many sent facts are long overdue: what outruns retention
// is kept, whatever becomes of the space.
func (l *load) awaitRetention(ctx context.Context) error {
	for {
		var behind bool
		err := l.pool.QueryRow(ctx, `
SELECT count(*) > $2 FROM (SELECT FROM ops.domain_event_outbox
  WHERE recorded_at < clock_timestamp() - $1::interval AND published_at IS NOT NULL AND seq > $3 LIMIT $2 + 1) o`,
			keptFor+mostOverdue, loadOverdue, l.first).Scan(&behind)
		if err != nil || !behind {
			return err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// through reports whether a fact is sent and decided; it may be gone by then.
func (l *load) through(ctx context.Context, event rail.UUID) (yes bool, err error) {
	if l.isWatched(event) {
		return false, nil
	}
	err = l.pool.QueryRow(ctx, `
SELECT NOT EXISTS (SELECT 1 FROM ops.domain_event_outbox o JOIN ops.outbox_undecided u ON u.seq = o.seq WHERE o.event_id = $1)`, event).Scan(&yes)
	return yes, err
}

// watch notes the instant from which a fact waits.
func (l *load) watch(id rail.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[id] = time.Now()
}

// committed has a watched fact wait from now on, unless it is through already.
func (l *load) committed(id rail.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, yes := l.waiting[id]; yes {
		l.waiting[id] = time.Now()
	}
}

func (l *load) isWatched(id rail.UUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, yes := l.waiting[id]
	return yes
}

// ask is people who wait for a Brief: a fact that does not settle now and then.
func (l *load) ask(ctx context.Context) error {
	matters := make([]rail.UUID, loadAsked)
	for i := range matters {
		matters[i] = rail.NewUUID()
	}
	tick := time.NewTicker(askedEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		matter := matters[i%loadAsked]
		l.watch(matter)
		_, err := l.pool.Exec(ctx, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES (md5('firm' || $1::integer)::uuid, $2, 'brief.requested')`,
			i%loadFirms, matter)
		if err != nil {
			return fmt.Errorf("ask: %w", err)
		}
		l.committed(matter)
	}
}

// waited notes how long a watched fact has waited. l.mu is held.
func (l *load) waited(id rail.UUID, kind string) {
	if at, ok := l.waiting[id]; ok {
		l.took[kind] = append(l.took[kind], time.Since(at))
		delete(l.waiting, id)
	}
}

// noting is a builder that answers at once.
type noting load

// Build implements runs.Builder.
func (n *noting) Build(_ context.Context, r runs.Request) (runs.Frame, runs.Usage, error) {
	l := (*load)(n)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waited(r.Key.Matter, toClaim)
	return runs.Frame{JSON: []byte(frame), SchemaVersion: "bench/1", BuilderVersion: "bench/1"}, runs.Usage{}, nil
}

// mostlyTakes is a sink that takes all nudges but one in a hundred.
type mostlyTakes load

// Publish implements relay.Publisher.
func (m *mostlyTakes) Publish(_ context.Context, nudges []nudge.Nudge) ([]nudge.Result, error) {
	l := (*load)(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	results := make([]nudge.Result, len(nudges))
	for i, n := range nudges {
		if rand.N(100) == 0 {
			results[i] = nudge.Result{Verdict: nudge.Retry, Code: "InternalFailure", Text: "not this one"}
			continue
		}
		results[i].Verdict = nudge.Sent
		l.waited(n.Event, toSent)
	}
	return results, nil
}

// begun is a statement under way.
type begun struct {
	at   time.Time
	kind string
}

type begunKey struct{}

// TraceQueryStart implements pgx.QueryTracer.
func (l *load) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	for _, s := range statements {
		if strings.Contains(q.SQL, s.words) {
			return context.WithValue(ctx, begunKey{}, begun{time.Now(), s.kind})
		}
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (l *load) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if s, ok := ctx.Value(begunKey{}).(begun); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.took[s.kind] = append(l.took[s.kind], time.Since(s.at))
	}
}
