package main

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/audit"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

func newKey() rail.Key { return rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()} }

func newKeys(firms, matters int) []rail.Key {
	out := make([]rail.Key, 0, matters)
	ids := make([]rail.UUID, firms)
	for i := range ids {
		ids[i] = rail.NewUUID()
	}
	for i := range matters {
		out = append(out, rail.Key{Firm: ids[i%firms], Matter: rail.NewUUID()})
	}
	return out
}

const uploaded = "document.uploaded"

// tell appends one fact for each key, in one transaction.
func tell(t testing.TB, db pg.DB, name string, keys ...rail.Key) {
	t.Helper()
	var b pgx.Batch
	for _, k := range keys {
		b.Queue(`INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, $3)`, k.Firm, k.Matter, name)
	}
	if err := db.SendBatch(t.Context(), &b).Close(); err != nil {
		t.Fatal(err)
	}
}

// one reads one value.
func one[T any](t testing.TB, db pg.DB, sql string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// peek is one for polling: an error is the zero value, as a server may be away.
func peek[T any](ctx context.Context, db pg.DB, sql string, args ...any) (v T) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := db.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		var zero T
		return zero
	}
	return v
}

const quietSQL = `SELECT NOT EXISTS (SELECT 1 FROM ops.outbox_undecided)
  AND NOT EXISTS (SELECT 1 FROM ops.matter_frame_jobs WHERE run_status NOT IN ('idle', 'parked'))
  AND EXISTS (SELECT 1 FROM ops.matter_frame_jobs)`

// awaitQuiet waits until every fact is decided and nothing is queued or running.
func awaitQuiet(t testing.TB, db pg.DB, within time.Duration) {
	t.Helper()
	if waitFor(t.Context(), within, func() bool { return peek[bool](t.Context(), db, quietSQL) }) {
		return
	}
	t.Fatalf("after %s: undecided %d, jobs %s", within,
		peek[int](t.Context(), db, `SELECT count(*) FROM ops.outbox_undecided`),
		peek[string](t.Context(), db, `SELECT jsonb_object_agg(run_status, n)::text FROM (SELECT run_status, count(*) AS n FROM ops.matter_frame_jobs GROUP BY 1) s`))
}

func awaitStatus(t testing.TB, db pg.DB, k rail.Key, status string) {
	t.Helper()
	eventually(t, 30*time.Second, "matter "+status, func() bool { return statusOf(t, db, k) == status })
}

func statusOf(t testing.TB, db pg.DB, k rail.Key) string {
	return peek[string](t.Context(), db, `SELECT run_status FROM ops.matter_frame_jobs WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter)
}

// soundness are the invariants of a ledger at rest, each a count that must be 0.
func soundness() map[string]string {
	return map[string]string{
		"facts without receipt": `SELECT count(*) FROM ops.domain_event_outbox o
			WHERE NOT EXISTS (SELECT 1 FROM ops.trigger_receipts r WHERE r.event_id = o.event_id)`,
		"receipts without fact": `SELECT count(*) FROM ops.trigger_receipts r
			WHERE NOT EXISTS (SELECT 1 FROM ops.domain_event_outbox o WHERE o.event_id = r.event_id)`,
		"demand not in a landed frame": `SELECT count(*) FROM ops.trigger_receipts r JOIN ops.domain_event_outbox o USING (event_id)
			LEFT JOIN ops.matter_frame_jobs j ON j.firm_id = o.firm_id AND j.matter_id = o.matter_id
			WHERE r.verdict = 'demanded' AND (j.landed_generation < r.requested_generation AND j.run_status <> 'parked') IS NOT FALSE`,
		"matters neither current nor parked": `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status NOT IN ('idle', 'parked')`,
		"landed generations without frame": `SELECT count(*) FROM ops.matter_frame_jobs j WHERE landed_generation > 0 AND NOT EXISTS
			(SELECT 1 FROM ops.matter_frames f WHERE f.firm_id = j.firm_id AND f.matter_id = j.matter_id AND f.generation = j.landed_generation)`,
		"frames beyond the landed generation": `SELECT count(*) FROM ops.matter_frames f JOIN ops.matter_frame_jobs j USING (firm_id, matter_id)
			WHERE f.generation > j.landed_generation`,
		"frames without landed run": `SELECT count(*) FROM ops.matter_frames f LEFT JOIN ops.matter_frame_runs r USING (run_id)
			WHERE (r.outcome = 'landed' AND r.generation = f.generation AND r.matter_id = f.matter_id) IS NOT TRUE`,
		"frames of another run's build": `SELECT count(*) FROM ops.matter_frames WHERE frame ? 'run' AND frame->>'run' <> run_id::text`,
		"frames not strictly later than the one before": `SELECT count(*) FROM (SELECT built_at, lag(built_at) OVER
			(PARTITION BY firm_id, matter_id ORDER BY generation) AS before FROM ops.matter_frames) s WHERE built_at <= before`,
		"landed runs against frames": `SELECT (SELECT count(*) FROM ops.matter_frame_runs WHERE outcome = 'landed')
			+ (SELECT taken FROM ops.retention_counters WHERE what = 'landed_runs')
			- (SELECT count(*) FROM ops.matter_frames) - (SELECT taken FROM ops.retention_counters WHERE what = 'frames')`,
		"landings told": `SELECT (SELECT count(*) FROM ops.matter_frame_runs WHERE outcome = 'landed')
			- (SELECT count(*) FROM ops.domain_event_outbox WHERE event_name = 'brief.landed')`,
		"more landings of a matter than facts": `SELECT count(*) FROM (
			SELECT firm_id, matter_id, count(*) AS n FROM ops.matter_frame_runs WHERE outcome = 'landed' GROUP BY 1, 2) l
			WHERE n > (SELECT count(*) FROM ops.domain_event_outbox o JOIN ops.trigger_receipts r USING (event_id)
				WHERE o.firm_id = l.firm_id AND o.matter_id = l.matter_id AND r.verdict = 'demanded')`,
		"runs without end":            `SELECT count(*) FROM ops.matter_frame_runs WHERE outcome = 'running'`,
		"changes of an ended outcome": `SELECT last_value FROM ops.run_outcome_refusals`,
	}
}

// assertSound holds the ledger, at rest, against every invariant.
func assertSound(t testing.TB, db pg.DB) {
	t.Helper()
	for what, sql := range soundness() {
		if n := one[int](t, db, sql); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	found, err := audit.Check(t.Context(), db, audit.CheckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if !f.Healthy() {
			t.Errorf("invariant %s: %d violations, %s (%s)", f.Invariant, f.Violations, f.Err, f.Examples)
		}
	}
}

// assertCurrent is assertSound where nothing may be parked either.
func assertCurrent(t testing.TB, db pg.DB) {
	t.Helper()
	// the last landing's own fact may still wait for an idle trigger
	eventually(t, 30*time.Second, "every fact is decided", func() bool {
		return one[int](t, db, `SELECT count(*) FROM ops.outbox_undecided`) == 0
	})
	assertSound(t, db)
	if n := one[int](t, db, `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status <> 'idle'`); n != 0 {
		t.Errorf("%d matters are not current", n)
	}
}
