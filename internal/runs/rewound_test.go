package runs_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"briefrail/internal/jobs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// A row that was rewound by hand, guards off: the old holder's number may come
// again, its run_id cannot; and one such row does not spoil a batch of claims.
func TestRewoundCounter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	demand(t, db, k, 1)
	old := mustClaim(t, db)
	rewind(t, db, k)
	others := []rail.Key{newKey(), newKey(), newKey()}
	for _, o := range others {
		demand(t, db, o, 1)
	}
	got, err := runs.Claim(t.Context(), db.Pool, 10, claimOptions())
	if err != nil || len(got) != 4 {
		t.Fatalf("a batch with a rewound row: %d claims, %v", len(got), err)
	}
	i := slices.IndexFunc(got, func(c runs.Claimed) bool { return c.Key == k })
	if i < 0 || got[i].Token.Generation <= old.Token.Generation {
		t.Fatalf("the rewound row is served again as %v, above %s wanted", got, old.Token)
	}
	if _, err := runs.Land(t.Context(), db.Pool, landing(t, old.Claim, `{"stale":true}`)); !errors.Is(err, runs.ErrFenced) {
		t.Errorf("the old holder: %v", err)
	}
	if err := runs.NoteRefused(t.Context(), db.Pool, old.Token.Run, true); err != nil {
		t.Error(err)
	}
	if o := outcomeOf(t, db.Pool, old.Token.Run); o != "fenced" {
		t.Errorf("the old holder's run is %s", o)
	}
	for _, c := range got {
		if _, err := runs.Land(t.Context(), db.Pool, landing(t, c.Claim, `{}`)); err != nil {
			t.Errorf("land: %v", err)
		}
	}
	db.CheckLedger(t)
}

// The same number for two holders, as after a failover that lost the first one's
// run too.
func TestSameNumberOfTwoHolders(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	k := newKey()
	demand(t, db, k, 1)
	old := mustClaim(t, db)
	rewind(t, db, k)
	unguarded(t, db, `DELETE FROM ops.matter_frame_runs WHERE run_id = $1`, old.Token.Run)
	twin, ok := took(t, db.Pool, k)
	if !ok || twin.Token.Generation != old.Token.Generation || twin.Token.Run == old.Token.Run {
		t.Fatalf("claimed %+v after %s", twin, old.Token)
	}
	if _, err := runs.Land(t.Context(), db.Pool, landing(t, old.Claim, `{"stale":true}`)); !errors.Is(err, runs.ErrFenced) {
		t.Errorf("the old holder: %v", err)
	}
	if got, err := jobs.Renew(t.Context(), db.Pool, []jobs.Claim{old.Claim, twin.Claim}, lease); err != nil || got[0] != jobs.Fenced || got[1] != jobs.Renewed {
		t.Errorf("renewals: %v, %v", got, err)
	}
	if _, err := runs.Fail(t.Context(), db.Pool, old.Claim, runs.Failure{Kind: "other"}, runs.Retry{MaxAttempts: 1, BackoffMax: time.Second}); !errors.Is(err, runs.ErrFenced) {
		t.Errorf("the old holder's failure: %v", err)
	}
	if _, err := runs.Land(t.Context(), db.Pool, landing(t, twin.Claim, `{"fresh":true}`)); err != nil {
		t.Error(err)
	}
	db.CheckLedger(t)
}

// rewind sets a claimed row back to where it was before its claim.
func rewind(t *testing.T, db *pgtest.DB, k rail.Key) {
	t.Helper()
	unguarded(t, db, `UPDATE ops.matter_frame_jobs SET run_status = 'queued', requested_generation = 1, claimed_generation = 0, run_id = NULL,
	  claimed_at = NULL, lease_expires_at = NULL, attempts = 0 WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter)
}

// unguarded runs a statement with every trigger off, which only a superuser can.
func unguarded(t *testing.T, db *pgtest.DB, sql string, args ...any) {
	t.Helper()
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}
