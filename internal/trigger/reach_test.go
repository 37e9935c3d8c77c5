package trigger

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/outbox"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

func TestEverythingIsReadForATwentiethOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reach{last: 100 * time.Millisecond, cost: 200 * time.Millisecond, full: time.Now()} // it has learnt
		begun, full := time.Now(), time.Duration(0)
		for seq := int64(1); time.Since(begun) < time.Minute; seq++ {
			from, took := r.from(), time.Millisecond
			if from == 0 {
				took = 100 * time.Millisecond // a look whether any waits, and one that takes them
				full += 2 * took
			}
			for range 2 {
				time.Sleep(took)
				r.read(from, took)
			}
			r.decided(seq, false)
		}
		if share := full.Seconds() / time.Since(begun).Seconds(); share < 1./25 || share > 1./20 {
			t.Errorf("%.3f of the time", share)
		}
	})
}

func TestAStallIsNotTakenForDearReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reach
		for range 3 {
			if from := r.from(); from != 0 {
				t.Fatalf("from %d a while after a stall", from)
			}
			r.read(0, 10*time.Second)
			r.decided(7, false)
			if r.from() == 0 {
				t.Error("a second reading at once")
			}
			time.Sleep(rest * cheap * 4)
		}
	})
}

func TestTheNextLookBeginsBehindTheLastFact(t *testing.T) {
	for name, c := range map[string]struct {
		decide func(*reach)
		want   int64
	}{
		"the last of a batch":                    {func(r *reach) { r.decided(200, false) }, 201},
		"late ones do not take it back":          {func(r *reach) { r.decided(200, false); r.decided(10, false) }, 201},
		"a batch that was cut off takes it back": {func(r *reach) { r.decided(200, false); r.decided(10, true) }, 11},
	} {
		r := reach{full: time.Now(), cost: time.Hour}
		if c.decide(&r); r.from() != c.want {
			t.Errorf("%s: from %d, want %d", name, r.from(), c.want)
		}
	}
}

// reading is a trigger whose looks at everything are dear, unless a test makes one due.
type reading struct {
	*Trigger
	t  *testing.T
	db *pgtest.DB
}

func newReading(t *testing.T) *reading {
	t.Helper()
	rules, err := NewRules([]Rule{{Name: "document.uploaded", Priority: rail.Standard}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.New(t)
	r := &reading{t: t, db: db, Trigger: New(db.Pool, prometheus.NewRegistry(), Options{
		Rules: rules, MaxWait: time.Minute, MaxIdle: time.Second, Batch: 500, Loops: unwatched{}, Log: slog.New(slog.DiscardHandler),
	})}
	return r
}

type unwatched struct{}

func (unwatched) Progress(string)       {}
func (unwatched) Failed(string, string) {}

const factSQL = `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, gen_random_uuid(), $2) RETURNING seq`

func (r *reading) fact(name string, db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
},
) (seq int64) {
	r.t.Helper()
	if err := db.QueryRow(r.t.Context(), factSQL, rail.NewUUID(), name).Scan(&seq); err != nil {
		r.t.Fatal(err)
	}
	return seq
}

// looks is one look of the loop; of everything it is due when full.
func (r *reading) looks(full bool, want int) {
	r.t.Helper()
	r.reach.mu.Lock()
	r.reach.full, r.reach.cost = time.Now(), time.Hour
	if full {
		r.reach.full = time.Time{}
	}
	r.reach.mu.Unlock()
	if n, err := r.once(r.t.Context(), r.reach.from()); err != nil || n != want {
		r.t.Fatalf("decided %d, %v; want %d", n, err, want)
	}
}

// What commits late with a lower number, or is put back to be judged again, is not
// seen between two looks at everything, and is decided by the next.
func TestWhatComesLateIsDecidedByTheNextLookAtEverything(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(*reading) (come func()){
		"a late commit": func(r *reading) func() {
			tx, err := r.db.Pool.Begin(r.t.Context())
			if err != nil {
				r.t.Fatal(err)
			}
			r.fact("document.uploaded", tx)
			return func() {
				if err := tx.Commit(r.t.Context()); err != nil {
					r.t.Fatal(err)
				}
			}
		},
		"judged again": func(r *reading) func() {
			r.fact("document.viewed", r.db.Pool)
			r.looks(true, 1)
			return func() {
				n, err := outbox.Redecide(r.t.Context(), r.db.Pool, "ignored", time.Now().Add(-time.Hour), rail.UUID{}, "test", "why")
				if err != nil || n != 1 {
					r.t.Fatalf("put back %d, %v", n, err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReading(t)
			come := late(r)
			r.fact("document.uploaded", r.db.Pool)
			r.looks(true, 1)
			come()
			r.looks(false, 0)
			r.fact("document.uploaded", r.db.Pool)
			r.looks(false, 1)
			r.looks(true, 1)
			r.looks(true, 0)
		})
	}
}

// A fact at fault is tried again at once while nothing is decided behind it, and else
// by the next look at everything.
func TestWhatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	for _, sql := range []string{
		`CREATE FUNCTION refuse_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '23514'; END $$`,
		`CREATE TRIGGER refuse_it BEFORE INSERT ON ops.matter_frame_jobs FOR EACH ROW EXECUTE FUNCTION refuse_it()`,
	} {
		if _, err := r.db.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r.fact("document.uploaded", r.db.Pool)
	r.fact("document.viewed", r.db.Pool)
	if n, err := r.Once(t.Context()); err == nil || n != 2 {
		t.Fatalf("took %d, %v", n, err)
	}
	if n, err := r.once(t.Context(), r.reach.from()); err == nil || n != 1 {
		t.Fatalf("took %d, %v", n, err)
	}
	if _, err := r.db.Pool.Exec(t.Context(), `DROP TRIGGER refuse_it ON ops.matter_frame_jobs`); err != nil {
		t.Fatal(err)
	}
	r.looks(false, 1)
}
