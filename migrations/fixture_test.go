package migrations_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// matter is one matter in a state that only the rail's own functions led to.
type matter struct {
	key   rail.Key
	claim runs.Claimed
	event rail.UUID // a fact of this matter
}

// state leads a fresh matter to where a case begins.
type state func(t *testing.T, db *pgtest.DB, m *matter)

func none(*testing.T, *pgtest.DB, *matter) {}

func queued(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	_, err := jobs.Demand(t.Context(), db.Pool, []jobs.Want{{Key: m.key, Count: 1, Priority: rail.Standard}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
}

func running(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	queued(t, db, m)
	m.take(t, db)
}

// take claims the matter by key.
func (m *matter) take(t *testing.T, db *pgtest.DB) {
	t.Helper()
	got, err := runs.ClaimKey(t.Context(), db.Pool, m.key, rail.Standard, runs.ClaimOptions{Worker: "w", Builder: "b", Lease: time.Minute})
	if err != nil || len(got) != 1 {
		t.Fatalf("claim: %v, %v", got, err)
	}
	m.claim = got[0]
}

func rebuilding(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	running(t, db, m)
	queued(t, db, m)
}

func lapsed(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	running(t, db, m)
	run(t, db, `UPDATE ops.matter_frame_jobs SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE run_id = $1`, m.claim.Token.Run)
}

func idle(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	running(t, db, m)
	if _, err := runs.Land(t.Context(), db.Pool, m.landing(t)); err != nil {
		t.Fatal(err)
	}
}

func (m *matter) landing(t *testing.T) runs.Landing {
	t.Helper()
	json := []byte(`{"a":1}`)
	checked, err := frames.Check(json, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return runs.Landing{Claim: m.claim.Claim, Digest: checked.Digest, Frame: runs.Frame{JSON: json, SchemaVersion: "1", BuilderVersion: "1"}}
}

func requeued(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	running(t, db, m)
	m.fail(t, db, false)
}

func parkedByFailure(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	running(t, db, m)
	m.fail(t, db, true)
}

func (m *matter) fail(t *testing.T, db *pgtest.DB, permanent bool) {
	t.Helper()
	_, err := runs.Fail(t.Context(), db.Pool, m.claim.Claim, runs.Failure{Kind: "other", Text: "no", Permanent: permanent},
		runs.Retry{MaxAttempts: 6, Backoff: time.Millisecond, BackoffMax: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
}

func parkedByOperator(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	queued(t, db, m)
	if _, err := (jobs.Actor{Name: "op", Reason: "why"}).Park(t.Context(), db.Pool, m.key); err != nil {
		t.Fatal(err)
	}
}

// undecided is a matter with a fact that no receipt answers.
func undecided(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	m.event = rail.NewUUID()
	run(t, db, `INSERT INTO ops.domain_event_outbox (event_id, firm_id, matter_id, event_name) VALUES ($1, $2, $3, 'document.uploaded')`,
		m.event, m.key.Firm, m.key.Matter)
}

// served is a matter that owes nothing, with a fact that came after its landing.
func served(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	idle(t, db, m)
	undecided(t, db, m)
}

func demanded(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	undecided(t, db, m)
	queued(t, db, m)
	run(t, db, `INSERT INTO ops.trigger_receipts (event_id, verdict, requested_generation)
		SELECT $1, 'demanded', requested_generation FROM ops.matter_frame_jobs WHERE matter_id = $2`, m.event, m.key.Matter)
}

// judged is a matter with a fact of the given verdict, settled as the trigger does it.
func judged(t *testing.T, db *pgtest.DB, m *matter, verdict string) {
	t.Helper()
	undecided(t, db, m)
	queued(t, db, m)
	run(t, db, `WITH r AS (INSERT INTO ops.trigger_receipts (event_id, verdict, requested_generation)
		VALUES ($1, $2, CASE WHEN $2 = 'demanded' THEN 1 END) RETURNING event_id)
		DELETE FROM ops.outbox_undecided u USING r WHERE u.event_id = r.event_id`, m.event, verdict)
}

// redecided is a matter with a fact that was ignored and is to be judged again.
func redecided(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	judged(t, db, m, "ignored")
	run(t, db, `SELECT ops.redecide('ignored', '-infinity', $1, 'op', 'why')`, m.key.Firm)
}

// fenced is a matter whose fact became demand and is to be judged again.
func fenced(t *testing.T, db *pgtest.DB, m *matter) {
	t.Helper()
	judged(t, db, m, "demanded")
	run(t, db, `SELECT ops.bump_epoch('-infinity', 'op', 'why')`)
}

func run(t *testing.T, db *pgtest.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// fill puts the matter's names into a case's SQL.
func (m *matter) fill(sql string) string {
	quote := func(u rail.UUID) string { return "'" + u.String() + "'" }
	return strings.NewReplacer(
		"{job}", fmt.Sprintf("firm_id = '%s' AND matter_id = '%s'", m.key.Firm, m.key.Matter),
		"{firm}", quote(m.key.Firm), "{matter}", quote(m.key.Matter), "{run}", quote(m.claim.Token.Run),
		"{generation}", fmt.Sprint(m.claim.Token.Generation), "{event}", quote(m.event),
		"{new}", quote(rail.NewUUID()),
	).Replace(sql)
}

// The pieces of a legal claim and a legal landing by hand: what the cases bend.
const (
	claimJob = `UPDATE ops.matter_frame_jobs SET run_status = 'running', requested_generation = requested_generation + 1,
  claimed_generation = requested_generation + 1, run_id = {new}, claimed_at = clock_timestamp(),
  lease_expires_at = clock_timestamp() + interval '1 minute', attempts = attempts + 1, owed_since = coalesce(owed_since, clock_timestamp()),
  rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL WHERE {job};`
	openRun = `INSERT INTO ops.matter_frame_runs (run_id, firm_id, matter_id, generation, attempt, worker, builder)
  SELECT run_id, firm_id, matter_id, claimed_generation, attempts, 'w', 'b' FROM ops.matter_frame_jobs WHERE {job};`
	landJob = `UPDATE ops.matter_frame_jobs SET run_status = 'idle', landed_generation = claimed_generation, run_id = NULL, claimed_at = NULL,
  lease_expires_at = NULL, attempts = 0, demands_owed = 0, owed_since = NULL WHERE {job};`
	followUp = `UPDATE ops.matter_frame_jobs SET run_status = 'queued', landed_generation = claimed_generation, run_id = NULL, claimed_at = NULL,
  lease_expires_at = NULL, attempts = 0, demands_owed = requested_generation - claimed_generation, owed_since = rebuild_since,
  queued_at = rebuild_since, not_before = clock_timestamp(), rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL WHERE {job};`
	leaveJob = `UPDATE ops.matter_frame_jobs SET run_status = 'queued', run_id = NULL, claimed_at = NULL, lease_expires_at = NULL,
  queued_at = clock_timestamp(), not_before = clock_timestamp(), rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL WHERE {job};`
	addFrame = `INSERT INTO ops.matter_frames (firm_id, matter_id, generation, frame, digest, schema_version, builder_version, run_id)
  VALUES ({firm}, {matter}, {generation}, '{}', sha256('x'), '1', '1', {run});`
	closeRun = `UPDATE ops.matter_frame_runs SET outcome = 'landed', finished_at = clock_timestamp() WHERE run_id = {run};`
	failRun  = `UPDATE ops.matter_frame_runs SET outcome = 'failed', finished_at = clock_timestamp() WHERE run_id = {run};`
	// Only a superuser can switch the triggers off; the CHECKs stand even then.
	unguarded = `SET LOCAL session_replication_role = replica;`
	guarded   = `SET LOCAL session_replication_role = origin;`
)
