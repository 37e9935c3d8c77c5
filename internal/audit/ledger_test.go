package audit_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/trigger"
)

// ledger drives a database through its owners, as the daemons would.
type ledger struct {
	*pgtest.DB
	t       *testing.T
	trigger *trigger.Trigger
}

type quiet struct{}

func (quiet) Progress(string)       {}
func (quiet) Failed(string, string) {}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	rules, err := trigger.NewRules([]trigger.Rule{
		{Name: "document.uploaded", Priority: rail.Standard}, {Name: "brief.requested", Priority: rail.Interactive},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.New(t)
	return &ledger{DB: db, t: t, trigger: trigger.New(db.Pool, prometheus.NewRegistry(), trigger.Options{
		Rules: rules, MaxWait: time.Minute, MaxIdle: time.Second, Batch: 100, Loops: quiet{}, Log: slog.New(slog.DiscardHandler),
	})}
}

func newKey() rail.Key { return rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()} }

// fact records a fact and leaves it undecided.
func (l *ledger) fact(k rail.Key, name string) rail.UUID {
	l.t.Helper()
	return get[rail.UUID](l, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, $3) RETURNING event_id`,
		k.Firm, k.Matter, name)
}

func (l *ledger) decide() {
	l.t.Helper()
	if _, err := l.trigger.Once(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
}

// claim claims the one job that waits.
func (l *ledger) claim(worker string) runs.Claimed {
	l.t.Helper()
	got, err := runs.Claim(l.t.Context(), l.Pool, 1, runs.ClaimOptions{Worker: worker, Builder: "test", Lease: time.Minute})
	if err != nil || len(got) != 1 {
		l.t.Fatalf("claim: won %d, %v", len(got), err)
	}
	return got[0]
}

func (l *ledger) land(c runs.Claimed) error {
	l.t.Helper()
	const content = `{"a":1}`
	checked, err := frames.Check([]byte(content), 1<<20)
	if err != nil {
		l.t.Fatal(err)
	}
	_, err = runs.Land(l.t.Context(), l.Pool, runs.Landing{Claim: c.Claim, Digest: checked.Digest, Frame: runs.Frame{
		JSON: []byte(content), SchemaVersion: "test/1", BuilderVersion: "test/1",
	}})
	return err
}

// build takes a new matter from a fact to its frame, and decides what the landing
// itself recorded.
func (l *ledger) build(k rail.Key) runs.Claimed {
	l.t.Helper()
	name := "document.uploaded"
	if k == rail.Canary() {
		name = string(rail.CanaryFact)
	}
	l.fact(k, name)
	l.decide()
	c := l.claim("w1")
	if err := l.land(c); err != nil {
		l.t.Fatal(err)
	}
	l.decide()
	return c
}

// demand queues a matter at once, without any fact.
func (l *ledger) demand(k rail.Key) {
	l.t.Helper()
	if _, err := jobs.Demand(l.t.Context(), l.Pool, []jobs.Want{{Key: k, Count: 1, Priority: rail.Standard}}, time.Minute); err != nil {
		l.t.Fatal(err)
	}
}

func (l *ledger) exec(sql string, args ...any) {
	l.t.Helper()
	if _, err := l.Pool.Exec(l.t.Context(), sql, args...); err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
}

// force runs a statement past every guard, as only a superuser can: it stands for
// whatever breaks an invariant.
func (l *ledger) force(sql string, args ...any) {
	l.t.Helper()
	err := pgx.BeginFunc(l.t.Context(), l.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(l.t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		tag, err := tx.Exec(l.t.Context(), sql, args...)
		if err == nil && tag.RowsAffected() == 0 {
			l.t.Errorf("%s: touched nothing", sql)
		}
		return err
	})
	if err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
}

// expire ages a claim past its lease by the given time.
func (l *ledger) expire(k rail.Key, by time.Duration) {
	l.t.Helper()
	l.exec(`UPDATE ops.matter_frame_jobs SET claimed_at = claimed_at - interval '1 day', lease_expires_at = clock_timestamp() - $3::interval
	  WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter, by)
}

func get[T any](l *ledger, sql string, args ...any) (v T) {
	l.t.Helper()
	if err := l.Pool.QueryRow(context.WithoutCancel(l.t.Context()), sql, args...).Scan(&v); err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
	return v
}
