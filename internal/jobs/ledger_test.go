package jobs_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
)

const (
	quiet   = 10 * time.Second
	maxWait = 60 * time.Second
	lease   = time.Minute
	never   = -1 << 30 // an instant that is NULL
)

func newKey() rail.Key { return rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()} }

func operator() jobs.Actor { return jobs.Actor{Name: "op", Reason: "why"} }

// job is a row as the transition table speaks of it. Instants are whole seconds from
// now: Wait is not_before, the others are ages.
type job struct {
	Status                     string
	Requested, Claimed, Landed int64
	Demands                    int64
	Attempts                   int
	Priority                   rail.Priority
	Wait, Queued, Owed         int
	Rebuild                    bool
	RebuildPriority            rail.Priority
	RebuildAge                 int
}

const jobSQL = `
SELECT run_status, requested_generation, claimed_generation, landed_generation, demands_owed, attempts, priority,
       coalesce(round(extract(epoch FROM not_before - clock_timestamp()))::int, $3),
       coalesce(round(extract(epoch FROM clock_timestamp() - queued_at))::int, $3),
       coalesce(round(extract(epoch FROM clock_timestamp() - owed_since))::int, $3),
       rebuild_needed, coalesce(rebuild_priority, 0), coalesce(round(extract(epoch FROM clock_timestamp() - rebuild_since))::int, $3)
  FROM ops.matter_frame_jobs WHERE firm_id = $1 AND matter_id = $2`

func read(t *testing.T, db *pgtest.DB, k rail.Key) (j job) {
	t.Helper()
	err := db.Pool.QueryRow(t.Context(), jobSQL, k.Firm, k.Matter, never).Scan(&j.Status, &j.Requested, &j.Claimed, &j.Landed, &j.Demands, &j.Attempts,
		&j.Priority, &j.Wait, &j.Queued, &j.Owed, &j.Rebuild, &j.RebuildPriority, &j.RebuildAge)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// wants compares a row with what it should be; seconds may be off by two on a slow
// machine.
func wants(t *testing.T, db *pgtest.DB, k rail.Key, want job) {
	t.Helper()
	near := cmp.FilterPath(func(p cmp.Path) bool {
		switch p.String() {
		case "Wait", "Queued", "Owed", "RebuildAge":
			return true
		}
		return false
	}, cmp.Comparer(func(a, b int) bool { return a-b <= 2 && b-a <= 2 }))
	if diff := cmp.Diff(want, read(t, db, k), near); diff != "" {
		t.Errorf("row (- want, + got):\n%s", diff)
	}
}

func ask(t *testing.T, db *pgtest.DB, k rail.Key, n int, p rail.Priority) jobs.Demanded {
	t.Helper()
	got, err := jobs.Demand(t.Context(), db.Pool, []jobs.Want{{Key: k, Count: n, Priority: p, Quiet: quiet}}, maxWait)
	if err != nil || len(got) != 1 || got[0].Key != k {
		t.Fatalf("demand: %+v, %v", got, err)
	}
	return got[0]
}

func options() runs.ClaimOptions {
	return runs.ClaimOptions{Worker: "w", Builder: "b", Lease: lease}
}

func byKey(t *testing.T, db *pgtest.DB, k rail.Key, p rail.Priority) []runs.Claimed {
	t.Helper()
	got, err := runs.ClaimKey(t.Context(), db.Pool, k, p, options())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// start claims one matter by key and wants to win it.
func start(t *testing.T, db *pgtest.DB, k rail.Key) runs.Claimed {
	t.Helper()
	got := byKey(t, db, k, rail.Bulk)
	if len(got) != 1 {
		t.Fatalf("%s was not claimed", k)
	}
	return got[0]
}

func claim(t *testing.T, db *pgtest.DB, n int) []runs.Claimed {
	t.Helper()
	got, err := runs.Claim(t.Context(), db.Pool, n, options())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func land(t *testing.T, db *pgtest.DB, c runs.Claimed) runs.Landed {
	t.Helper()
	checked, err := frames.Check([]byte(`{}`), 100)
	if err != nil {
		t.Fatal(err)
	}
	out, err := runs.Land(t.Context(), db.Pool, runs.Landing{Claim: c.Claim, Digest: checked.Digest, Quiet: quiet, Frame: runs.Frame{JSON: []byte(`{}`)}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// exactly is a retry whose backoff is as long as the builder asked for.
func exactly(wait time.Duration, attempts int) (runs.Failure, runs.Retry) {
	return runs.Failure{Kind: "timeout", Text: "slow", RetryAfter: wait}, runs.Retry{MaxAttempts: attempts, BackoffMax: wait}
}

func fail(t *testing.T, db *pgtest.DB, c runs.Claimed, wait time.Duration, attempts int) runs.End {
	t.Helper()
	f, r := exactly(wait, attempts)
	end, err := runs.Fail(t.Context(), db.Pool, c.Claim, f, r)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func expire(t *testing.T, db *pgtest.DB, attempts int) []sweep.Expired {
	t.Helper()
	got, err := sweep.Expire(t.Context(), db.Pool, 100, runs.Retry{MaxAttempts: attempts})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// age makes a row older: every instant of it moves back.
func age(t *testing.T, db *pgtest.DB, k rail.Key, by time.Duration) {
	t.Helper()
	exec(t, db, `UPDATE ops.matter_frame_jobs SET queued_at = queued_at - $3::interval, not_before = not_before - $3::interval,
	  owed_since = owed_since - $3::interval, rebuild_since = rebuild_since - $3::interval, claimed_at = claimed_at - $3::interval,
	  lease_expires_at = lease_expires_at - $3::interval WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter, by)
}

func exec(t *testing.T, db *pgtest.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// unguarded executes what the table's own guards would refuse, to set a scene.
func unguarded(t *testing.T, db *pgtest.DB, sql string, args ...any) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), sql, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func value[T any](t *testing.T, db *pgtest.DB, sql string, args ...any) (v T) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func outcome(t *testing.T, db *pgtest.DB, c runs.Claimed) string {
	t.Helper()
	return value[string](t, db, `SELECT outcome FROM ops.matter_frame_runs WHERE run_id = $1`, c.Token.Run)
}
