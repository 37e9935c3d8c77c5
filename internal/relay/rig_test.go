package relay_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/relay"
	"briefrail/internal/telemetry/telemetrytest"
)

// fakeBus is a sink that answers as it is told and remembers what it took.
type fakeBus struct {
	answer func(ctx context.Context, nudges []nudge.Nudge) ([]nudge.Result, error) // nil: takes all

	mu    sync.Mutex
	took  map[rail.UUID]int // how often each fact was named as taken
	asked map[rail.UUID]int // how often each was in a call
	calls int
}

func newBus() *fakeBus { return &fakeBus{took: map[rail.UUID]int{}, asked: map[rail.UUID]int{}} }

func (b *fakeBus) Publish(ctx context.Context, nudges []nudge.Nudge) ([]nudge.Result, error) {
	b.mu.Lock()
	b.calls++
	for _, n := range nudges {
		b.asked[n.Event]++
	}
	answer := b.answer
	b.mu.Unlock()
	if answer == nil {
		answer = takeAll
	}
	results, err := answer(ctx, nudges)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && len(results) == len(nudges) {
		for i, r := range results {
			if r.Verdict == nudge.Sent {
				b.took[nudges[i].Event]++
			}
		}
	}
	return results, err
}

func (b *fakeBus) set(answer func(context.Context, []nudge.Nudge) ([]nudge.Result, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

func (b *fakeBus) taken(id rail.UUID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.took[id]
}

// tookOnce holds that each fact was taken, and none a second time.
func (b *fakeBus) tookOnce(t *testing.T, ids []rail.UUID) {
	t.Helper()
	for _, id := range ids {
		if n := b.taken(id); n != 1 {
			t.Errorf("fact %s was taken %d times", id, n)
		}
	}
}

func (b *fakeBus) askedFor(id rail.UUID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked[id]
}

func (b *fakeBus) callCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

func takeAll(_ context.Context, nudges []nudge.Nudge) ([]nudge.Result, error) {
	out := make([]nudge.Result, len(nudges))
	for i := range out {
		out[i].Verdict = nudge.Sent
	}
	return out, nil
}

// each answers nudge by nudge.
func each(f func(nudge.Nudge) nudge.Result) func(context.Context, []nudge.Nudge) ([]nudge.Result, error) {
	return func(_ context.Context, nudges []nudge.Nudge) ([]nudge.Result, error) {
		out := make([]nudge.Result, len(nudges))
		for i, n := range nudges {
			out[i] = f(n)
		}
		return out, nil
	}
}

// line is the relay's way to the database. Cut, everything fails; frozen, everything
// waits, as in a process that was stopped; it counts.
type line struct {
	pg.DB
	cut     atomic.Bool
	queries atomic.Int64
	frozen  sync.RWMutex
}

// pass reports whether a query gets through.
func (l *line) pass() bool {
	l.queries.Add(1)
	l.frozen.RLock()
	defer l.frozen.RUnlock()
	return !l.cut.Load()
}

func (l *line) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if !l.pass() {
		return nil, errors.New("cut")
	}
	return l.DB.Query(ctx, sql, args...)
}

func (l *line) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if !l.pass() {
		return noRow{}
	}
	return l.DB.QueryRow(ctx, sql, args...)
}

func (l *line) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if !l.pass() {
		return pgconn.CommandTag{}, errors.New("cut")
	}
	return l.DB.Exec(ctx, sql, args...)
}

type noRow struct{}

func (noRow) Scan(...any) error { return errors.New("cut") }

// loops counts turns.
type loops struct{ turns, faults atomic.Int64 }

func (l *loops) Progress(string)       { l.turns.Add(1) }
func (l *loops) Failed(string, string) { l.faults.Add(1) }

// running is a relay at work.
type running struct {
	*relay.Relay
	line  *line
	loops *loops
	reg   *prometheus.Registry
	log   *telemetrytest.Log
	stop  context.CancelFunc
	done  chan error
}

func options(bus relay.Publisher) relay.Options {
	return relay.Options{
		Name: "test", Sinks: []relay.Sink{{Name: "eventbridge", Publisher: bus, Entries: 10, Bytes: 200 << 10}},
		Lease: 10 * time.Second, Inflight: 4, Timeout: time.Second, StopGrace: time.Second, MaxIdle: 100 * time.Millisecond,
		Backoff: outbox.Backoff{First: 20 * time.Millisecond, Max: 100 * time.Millisecond},
		Pauses:  outbox.Backoff{First: 200 * time.Millisecond, Max: 400 * time.Millisecond},
	}
}

func start(t *testing.T, db *pgtest.DB, o relay.Options) *running {
	t.Helper()
	return startOn(t, db.Pool, o)
}

// startOn is start with sessions of the relay's own.
func startOn(t *testing.T, db pg.DB, o relay.Options) *running {
	t.Helper()
	r := &running{line: &line{DB: db}, loops: &loops{}, reg: prometheus.NewRegistry(), log: &telemetrytest.Log{}, done: make(chan error, 1)}
	o.Loops, o.Log = r.loops, slog.New(slog.NewTextHandler(r.log, nil))
	r.Relay = relay.New(r.line, r.reg, o)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r.stop = cancel
	go func() { r.done <- r.Run(ctx); close(r.done) }()
	t.Cleanup(func() { r.end(t) })
	return r
}

// end stops the relay and waits for it.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	select {
	case err := <-r.done: // closed: a second end finds it ended
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the relay ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the relay does not stop")
	}
}

// kill is what kill -9 leaves: nothing that the relay knows reaches the database.
func (r *running) kill() {
	r.line.cut.Store(true)
	r.stop()
}

// metric sums the values of a counter or gauge with the given label value, or all.
func (r *running) metric(t *testing.T, name, label string) (sum float64) {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label != "" && (len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() != label) {
				continue
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("still not: %s", what)
		case <-tick.C:
		}
	}
}

// facts commits n facts of as many matters and returns their ids.
func facts(t *testing.T, db *pgtest.DB, n int) (ids []rail.UUID) {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
		SELECT gen_random_uuid(), gen_random_uuid(), 'document.uploaded' FROM generate_series(1, $1) RETURNING event_id`, n)
	if err != nil {
		t.Fatal(err)
	}
	if ids, err = pgx.CollectRows(rows, pgx.RowTo[rail.UUID]); err != nil {
		t.Fatal(err)
	}
	return ids
}

func exec(t *testing.T, db *pgtest.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, db *pgtest.DB, sql string, args ...any) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func unpublished(t *testing.T, db *pgtest.DB) int {
	t.Helper()
	return count(t, db, `SELECT count(*) FROM ops.domain_event_outbox WHERE published_at IS NULL`)
}

func published(t *testing.T, db *pgtest.DB, id rail.UUID) bool {
	t.Helper()
	return count(t, db, `SELECT count(*) FROM ops.domain_event_outbox WHERE event_id = $1 AND published_at IS NOT NULL`, id) == 1
}
