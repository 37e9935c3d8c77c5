package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
)

func retry(attempts int) runs.Retry {
	return runs.Retry{MaxAttempts: attempts, Backoff: time.Millisecond, BackoffMax: time.Millisecond}
}

// claimed demands and claims a new matter.
func claimed(t *testing.T, db *pgtest.DB) runs.Claimed {
	t.Helper()
	k := rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}
	if _, err := jobs.Demand(t.Context(), db.Pool, []jobs.Want{{Key: k, Count: 1}}, time.Minute); err != nil {
		t.Fatal(err)
	}
	got, err := runs.Claim(t.Context(), db.Pool, 1, runs.ClaimOptions{Worker: "w", Builder: "test", Lease: time.Minute})
	if err != nil || len(got) != 1 {
		t.Fatalf("claim: %v, %v", got, err)
	}
	return got[0]
}

func exec(t *testing.T, db pg.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func value[T any](t *testing.T, db pg.DB, sql string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func lapse(t *testing.T, db *pgtest.DB, c runs.Claimed) {
	t.Helper()
	exec(t, db.Pool, `UPDATE ops.matter_frame_jobs SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE run_id = $1`, c.Token.Run)
}

func land(t *testing.T, db *pgtest.DB, c runs.Claimed) error {
	t.Helper()
	checked, err := frames.Check([]byte(`{}`), 100)
	if err != nil {
		t.Fatal(err)
	}
	_, err = runs.Land(t.Context(), db.Pool, runs.Landing{
		Claim: c.Claim, Digest: checked.Digest, Frame: runs.Frame{JSON: []byte(`{}`), SchemaVersion: "t", BuilderVersion: "t"},
	})
	return err
}

func expire(t *testing.T, db *pgtest.DB, attempts, want int) []sweep.Expired {
	t.Helper()
	got, err := sweep.Expire(t.Context(), db.Pool, 100, retry(attempts))
	if err != nil || len(got) != want {
		t.Fatalf("expired %v, %v; want %d", got, err, want)
	}
	return got
}

func TestOnlyLapsedClaimsExpire(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	alive, silent := claimed(t, db), claimed(t, db)
	expire(t, db, 3, 0)
	lapse(t, db, silent)
	got := expire(t, db, 3, 1)
	if got[0].Token != silent.Token || got[0].Status != "queued" {
		t.Errorf("expired %+v", got[0])
	}
	for c, want := range map[rail.UUID]string{alive.Token.Run: "running", silent.Token.Run: "expired"} {
		if o, err := runs.Outcome(t.Context(), db.Pool, c); o != want || err != nil {
			t.Errorf("run is %s, %v; want %s", o, err, want)
		}
	}
}

// A build that never reports back is parked at the cap, visibly: the attempt was
// counted at the claim. field report 18.
func TestExpiryParksAtTheCap(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := claimed(t, db)
	lapse(t, db, c)
	if got := expire(t, db, 1, 1); got[0].Status != "parked" {
		t.Errorf("job is %s", got[0].Status)
	}
	if n := value[int](t, db.Pool, `SELECT count(*) FROM ops.domain_event_outbox WHERE event_name = 'brief.parked'`); n != 1 {
		t.Errorf("%d facts say so", n)
	}
}

// However long the backoff is meant to be, the table takes a day at most, and a row
// that it refused would keep every other claim from being swept.
func TestALongBackoffDoesNotStopTheSweep(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	long := runs.Retry{MaxAttempts: 99, Backoff: 365 * 24 * time.Hour, BackoffMax: 365 * 24 * time.Hour}
	for range 8 {
		lapse(t, db, claimed(t, db))
	}
	if got, err := sweep.Expire(t.Context(), db.Pool, 100, long); err != nil || len(got) != 8 {
		t.Fatalf("expired %v, %v; want 8", got, err)
	}
}

// field report 1: a claim that lands, or is taken over, between the sweep's look
// and its write must not be pulled back. Here the row is held while the sweep
// looks, and has moved on when it may write.
func TestSweepNeverPullsBackWhatMovedOn(t *testing.T) {
	t.Parallel()
	for name, moveOn := range map[string]func(*testing.T, *pgtest.DB, runs.Claimed){
		"landed": func(t *testing.T, db *pgtest.DB, c runs.Claimed) {
			if err := land(t, db, c); err != nil {
				t.Fatal(err)
			}
		},
		"claimed by another": func(t *testing.T, db *pgtest.DB, c runs.Claimed) {
			got, err := runs.ClaimKey(t.Context(), db.Pool, c.Key, rail.Standard, runs.ClaimOptions{Worker: "w2", Builder: "test", Lease: time.Minute})
			if err != nil || len(got) != 1 {
				t.Fatal(got, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			c := claimed(t, db)
			lapse(t, db, c)
			tx, err := db.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			exec(t, tx, `SELECT 1 FROM ops.matter_frame_jobs FOR UPDATE`)
			expire(t, db, 3, 0) // held: left for the next round
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			moveOn(t, db, c)
			before := value[string](t, db.Pool, `SELECT md5(j::text) FROM ops.matter_frame_jobs j`)
			expire(t, db, 3, 0)
			if after := value[string](t, db.Pool, `SELECT md5(j::text) FROM ops.matter_frame_jobs j`); after != before {
				t.Error("the sweep touched a job that had moved on")
			}
		})
	}
}

// A lapsed lease that nobody swept may still land: nobody else was told to build.
// gated makes the sweep's statement wait between its snapshot and its locks.
type gated struct{ pg.DB }

func (g gated) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	before, after, found := strings.Cut(sql, "FROM silent s JOIN")
	if !found {
		return nil, errors.New("the sweep's statement has another shape: mend this test")
	}
	return g.DB.Query(ctx, before+"FROM (SELECT pg_advisory_lock(1)) AS gate, silent s JOIN"+after, args...)
}

// A claim that is younger than the sweep's statement has a run that the statement
// cannot see, and so could not close: it is left for the next round.
func TestSweepLeavesAClaimThatIsYoungerThanItsStatement(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	old := claimed(t, db)
	lapse(t, db, old)
	holder := db.NewPool(t, 1)
	exec(t, holder, `SELECT pg_advisory_lock(1)`)
	swept := make(chan error, 1)
	go func() {
		got, err := sweep.Expire(t.Context(), gated{db.NewPool(t, 1)}, 100, retry(6))
		if err == nil && len(got) > 0 {
			err = fmt.Errorf("swept %v", got)
		}
		swept <- err
	}()
	waits := `SELECT EXISTS (SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database())`
	for deadline := time.After(time.Minute); !value[bool](t, db.Pool, waits); {
		select {
		case <-deadline:
			t.Fatal("the sweep never came to its gate")
		case err := <-swept:
			t.Fatalf("swept too early: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	young, err := runs.ClaimKey(t.Context(), db.Pool, old.Key, rail.Standard, runs.ClaimOptions{Worker: "v", Builder: "test", Lease: time.Minute})
	if err != nil || len(young) != 1 {
		t.Fatalf("taken over: %v, %v", young, err)
	}
	lapse(t, db, young[0])
	exec(t, holder, `SELECT pg_advisory_unlock(1)`)
	if err := <-swept; err != nil {
		t.Fatal(err)
	}
	if got := expire(t, db, 6, 1); got[0].Token != young[0].Token {
		t.Errorf("the next round swept %v", got)
	}
	db.CheckLedger(t)
}

func TestALapsedClaimMayStillLand(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := claimed(t, db)
	lapse(t, db, c)
	if err := land(t, db, c); err != nil {
		t.Fatal(err)
	}
	expire(t, db, 3, 0)
}

func TestCanaryIsAskedOnceAFleet(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	asked := make(chan bool, 16)
	for range cap(asked) {
		go func() {
			yes, err := outbox.AskCanary(t.Context(), db.Pool, time.Minute)
			if err != nil {
				t.Error(err)
			}
			asked <- yes
		}()
	}
	n := 0
	for range cap(asked) {
		if <-asked {
			n++
		}
	}
	if facts := value[int](t, db.Pool, `SELECT count(*) FROM ops.domain_event_outbox WHERE event_name = 'canary.asked'`); n != 1 || facts != 1 {
		t.Errorf("asked %d times, %d facts", n, facts)
	}
}
