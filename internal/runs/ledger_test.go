package runs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

const lease = time.Minute

func claimOptions() runs.ClaimOptions {
	return runs.ClaimOptions{Worker: "w1", Builder: "test", Lease: lease}
}

func newKey() rail.Key { return rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()} }

// demand records n demands without settling.
func demand(t *testing.T, db *pgtest.DB, k rail.Key, n int) jobs.Demanded {
	t.Helper()
	got, err := jobs.Demand(t.Context(), db.Pool, []jobs.Want{{Key: k, Count: n, Priority: rail.Standard}}, time.Minute)
	if err != nil || len(got) != 1 {
		t.Fatalf("demand: %v, %v", got, err)
	}
	return got[0]
}

// mustClaim claims exactly one job.
func mustClaim(t *testing.T, db *pgtest.DB) runs.Claimed {
	t.Helper()
	got, err := runs.Claim(t.Context(), db.Pool, 1, claimOptions())
	if err != nil || len(got) != 1 {
		t.Fatalf("claim: won %d, %v", len(got), err)
	}
	return got[0]
}

func landing(t *testing.T, c jobs.Claim, json string) runs.Landing {
	t.Helper()
	checked, err := frames.Check([]byte(json), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return runs.Landing{Claim: c, Digest: checked.Digest, Frame: runs.Frame{
		JSON: []byte(json), SchemaVersion: "test/1", BuilderVersion: "test/1",
	}}
}

// expireLease ages the lease of a claim: time is tested by ageing rows.
func expireLease(t *testing.T, db *pgtest.DB, k rail.Key) {
	t.Helper()
	exec(t, db, `UPDATE ops.matter_frame_jobs SET claimed_at = claimed_at - interval '1 hour', lease_expires_at = clock_timestamp() - interval '1 second'
	  WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter)
}

func exec(t *testing.T, db *pgtest.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func one[T any](t *testing.T, db *pgtest.DB, sql string, args ...any) (v T) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func status(t *testing.T, db *pgtest.DB, k rail.Key) string {
	t.Helper()
	return one[string](t, db, `SELECT run_status FROM ops.matter_frame_jobs WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter)
}

func TestOneBuildLandsOneFrame(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	if d := demand(t, db, k, 3); d.Requested != 3 || d.Status != "queued" {
		t.Fatalf("demanded %+v", d)
	}
	c := mustClaim(t, db)
	if c.Key != k || c.Token.Generation != 4 || c.Attempt != 1 || c.Demands != 3 {
		t.Fatalf("claimed %+v", c)
	}
	out, err := runs.Land(t.Context(), db.Pool, landing(t, c.Claim, `{"a":1}`))
	if err != nil || out.FollowUp {
		t.Fatalf("land: %+v, %v", out, err)
	}
	if s := status(t, db, k); s != "idle" {
		t.Errorf("status %s", s)
	}
	f, ok, err := frames.Current(t.Context(), db.Pool, k)
	if err != nil || !ok || f.Generation != 4 || string(f.JSON) != `{"a": 1}` {
		t.Errorf("frame %+v, %v, %v", f, ok, err)
	}
	if n := one[int](t, db, `SELECT count(*) FROM ops.domain_event_outbox WHERE event_name = 'brief.landed'`); n != 1 {
		t.Errorf("%d facts of the landing", n)
	}
	if _, err := runs.Land(t.Context(), db.Pool, landing(t, c.Claim, `{"a":2}`)); !errors.Is(err, runs.ErrFenced) {
		t.Errorf("second landing of one token: %v", err)
	}
}

func TestLargeFrameLandsByCopy(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	demand(t, db, k, 1)
	c := mustClaim(t, db)
	big := `{"a":"` + string(make0(600<<10)) + `"}`
	if _, err := runs.Land(t.Context(), db.Pool, landing(t, c.Claim, big)); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, db, `SELECT length(frame->>'a') FROM ops.current_frames`); n != 600<<10 {
		t.Errorf("stored %d characters", n)
	}
	if o, err := runs.Outcome(t.Context(), db.Pool, c.Token.Run); o != "landed" || err != nil {
		t.Errorf("run is %s, %v", o, err)
	}
}

func make0(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

func TestDemandDuringABuildIsOneFollowUp(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	demand(t, db, k, 1)
	c := mustClaim(t, db)
	for range 5 {
		if d := demand(t, db, k, 1); d.Status != "running" {
			t.Fatalf("demanded %+v", d)
		}
	}
	if more, err := runs.Claim(t.Context(), db.Pool, 5, claimOptions()); err != nil || len(more) != 0 {
		t.Fatalf("a second build beside the first: %v, %v", more, err)
	}
	out, err := runs.Land(t.Context(), db.Pool, landing(t, c.Claim, `{}`))
	if err != nil || !out.FollowUp {
		t.Fatalf("land: %+v, %v", out, err)
	}
	c2 := mustClaim(t, db)
	if c2.Demands != 5 {
		t.Errorf("follow-up serves %d demands", c2.Demands)
	}
	if out, err := runs.Land(t.Context(), db.Pool, landing(t, c2.Claim, `{}`)); err != nil || out.FollowUp {
		t.Fatalf("land: %+v, %v", out, err)
	}
}

func TestFailBackoffParkAndRevive(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	demand(t, db, k, 1)
	retry := runs.Retry{MaxAttempts: 2, Backoff: time.Millisecond, BackoffMax: time.Millisecond}
	c := mustClaim(t, db)
	end, err := runs.Fail(t.Context(), db.Pool, c.Claim, runs.Failure{Kind: "timeout", Text: "slow"}, retry)
	if err != nil || end.Status != "queued" {
		t.Fatalf("fail: %+v, %v", end, err)
	}
	ready(t, db, k)
	c = mustClaim(t, db)
	if c.Attempt != 2 || c.RetryOf.IsZero() {
		t.Errorf("second attempt %+v", c)
	}
	end, err = runs.Fail(t.Context(), db.Pool, c.Claim, runs.Failure{Kind: "timeout", Text: "slow"}, retry)
	if err != nil || end.Status != "parked" {
		t.Fatalf("fail: %+v, %v", end, err)
	}
	if n := one[int](t, db, `SELECT count(*) FROM ops.domain_event_outbox WHERE event_name = 'brief.parked'`); n != 1 {
		t.Errorf("%d facts of the parking", n)
	}
	if d := demand(t, db, k, 1); d.Status != "queued" {
		t.Errorf("demand on a job parked by failures left it %s", d.Status)
	}
}

func ready(t *testing.T, db *pgtest.DB, k rail.Key) {
	t.Helper()
	exec(t, db, `UPDATE ops.matter_frame_jobs SET not_before = clock_timestamp() - interval '1 second' WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter)
}

func TestReleaseChargesNoAttempt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	demand(t, db, k, 1)
	c := mustClaim(t, db)
	end, err := runs.Release(t.Context(), db.Pool, c.Claim, runs.Failure{Kind: "interrupted"}, 0)
	if err != nil || end.Status != "queued" || end.Attempts != 0 {
		t.Fatalf("release: %+v, %v", end, err)
	}
	if c = mustClaim(t, db); c.Attempt != 1 {
		t.Errorf("attempt %d after a release", c.Attempt)
	}
}

func TestZombieIsRefusedAndNoted(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	demand(t, db, k, 1)
	a := mustClaim(t, db)
	expireLease(t, db, k)
	got, err := runs.ClaimKey(t.Context(), db.Pool, k, rail.Interactive, claimOptions())
	if err != nil || len(got) != 1 {
		t.Fatalf("take-over: %v, %v", got, err)
	}
	if o, _ := runs.Outcome(t.Context(), db.Pool, a.Token.Run); o != "expired" {
		t.Errorf("the old run is %s", o)
	}
	if _, err := runs.Land(t.Context(), db.Pool, landing(t, a.Claim, `{"stale":true}`)); !errors.Is(err, runs.ErrFenced) {
		t.Fatalf("zombie: %v", err)
	}
	if err := runs.NoteRefused(t.Context(), db.Pool, a.Token.Run, true); err != nil {
		t.Fatal(err)
	}
	if !one[bool](t, db, `SELECT late_write_at IS NOT NULL AND outcome = 'expired' FROM ops.matter_frame_runs WHERE run_id = $1`, a.Token.Run) {
		t.Error("late write not noted")
	}
	if _, err := runs.Land(t.Context(), db.Pool, landing(t, got[0].Claim, `{"fresh":true}`)); err != nil {
		t.Fatal(err)
	}
}

func TestRenewTellsFencedFromLocked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	demand(t, db, k, 1)
	c := mustClaim(t, db)
	stale := jobs.Claim{Key: k, Token: rail.Token{Generation: c.Token.Generation, Run: rail.NewUUID()}}
	got, err := jobs.Renew(t.Context(), db.Pool, []jobs.Claim{stale, c.Claim}, lease)
	if err != nil || got[0] != jobs.Fenced || got[1] != jobs.Renewed {
		t.Fatalf("renew: %v, %v", got, err)
	}
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM ops.matter_frame_jobs FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if got, err := jobs.Renew(t.Context(), db.Pool, []jobs.Claim{c.Claim}, lease); err != nil || got[0] != jobs.Locked {
		t.Fatalf("renew of a locked row: %v, %v", got, err)
	}
}
