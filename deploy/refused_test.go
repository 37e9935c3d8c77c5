package deploy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// stage is a database with the roles, and a landed frame in each of two firms.
type stage struct {
	*pgtest.DB

	mine, theirs rail.Key
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{DB: pgtest.New(t)}
	s.GrantRoles(t)
	worker := s.PoolAs(t, "rail_worker")
	s.mine, s.theirs = landed(t, worker, "mine"), landed(t, worker, "theirs")
	return s
}

// landed lands one frame as a worker does.
func landed(t *testing.T, worker *pgxpool.Pool, text string) rail.Key {
	t.Helper()
	k := rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}
	wants := []jobs.Want{{Key: k, Count: 1, Priority: rail.Interactive}}
	if _, err := jobs.Demand(t.Context(), worker, wants, time.Minute); err != nil {
		t.Fatal(err)
	}
	got, err := runs.ClaimKey(t.Context(), worker, k, rail.Standard, runs.ClaimOptions{Worker: "w", Builder: "b", Lease: time.Minute})
	if err != nil || len(got) != 1 {
		t.Fatalf("claim: %v, %v", got, err)
	}
	json := []byte(`{"secret":"` + text + `"}`)
	checked, err := frames.Check(json, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	_, err = runs.Land(t.Context(), worker, runs.Landing{
		Claim: got[0].Claim, Digest: checked.Digest, Frame: runs.Frame{JSON: json, SchemaVersion: "1", BuilderVersion: "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const insertFact = `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES (gen_random_uuid(), gen_random_uuid(), 'document.uploaded')`

// refused is what no right of a role covers, by role: each must end in "permission
// denied" and not in a guard, which would be the second line of defence.
func refused() map[string][]string {
	everybody := []string{
		`TRUNCATE ops.matter_frames`, `DELETE FROM ops.matter_frames`, `UPDATE ops.matter_frames SET generation = 9`,
		`DELETE FROM ops.matter_frame_jobs`, `DELETE FROM ops.matter_frame_runs`, `DELETE FROM ops.trigger_receipts`,
		`DELETE FROM ops.domain_event_outbox`, `TRUNCATE ops.domain_event_outbox`, `UPDATE ops.domain_event_outbox SET event_name = 'a.b'`,
		`UPDATE ops.ledger SET epoch = epoch + 1`, `UPDATE ops.retention_counters SET taken = 9`, `DELETE FROM ops.audit_log`,
		`INSERT INTO ops.audit_log (actor, action, target, reason) VALUES ('a', 'b', 'c', 'd')`,
		`INSERT INTO ops.dispatch_pauses (paused_by, reason) VALUES ('a', 'b')`,
		`CREATE TABLE ops.mine (i int)`, `CREATE FUNCTION ops.mine() RETURNS int LANGUAGE sql RETURN 1`,
		`ALTER TABLE ops.matter_frames DISABLE TRIGGER ALL`, `ALTER TABLE ops.matter_frames DISABLE ROW LEVEL SECURITY`,
		`DROP TABLE ops.matter_frames`, `SET ROLE rail_owner`, `SET ROLE rail_migrator`, `SET session_replication_role = replica`,
		`INSERT INTO ops.outbox_undecided (seq, event_id, recorded_at) VALUES (1, gen_random_uuid(), now())`,
	}
	verbs := []string{
		`SELECT ops.park_matter(gen_random_uuid(), gen_random_uuid(), 'park', 'a', 'b')`, `SELECT ops.bump_epoch(now(), 'a', 'b')`,
		`SELECT ops.purge_matter(gen_random_uuid(), gen_random_uuid(), 'a', 'b')`, `SELECT ops.set_publishing('none', 'a', 'b')`,
		`SELECT ops.audit('a', 'b', 'c', 'd')`, `SELECT ops.pause_dispatch(NULL, 'a', 'b')`,
	}
	prune := []string{`SELECT ops.prune('outbox', interval '0', 1)`, `SELECT ops.prune_frames('{}', '{}', 1)`}
	demand := []string{`SELECT ops.demand('{}', '{}', '{}', '{}', '{}', interval '0')`}
	work := []string{
		`INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status) VALUES (gen_random_uuid(), gen_random_uuid(), 'idle')`,
		`UPDATE ops.matter_frame_jobs SET attempts = 0`, `INSERT INTO ops.trigger_receipts (event_id, verdict) VALUES (gen_random_uuid(), 'ignored')`,
		`DELETE FROM ops.outbox_undecided`, `UPDATE ops.ledger SET canary_asked_at = now()`,
	}
	publish := []string{
		`UPDATE ops.domain_event_outbox SET published_at = now()`, `UPDATE ops.outbox_bucket_leases SET epoch = epoch + 1`,
		`DELETE FROM ops.outbox_failures`,
	}
	content := []string{`SELECT frame FROM ops.matter_frames`, `SELECT error_preview FROM ops.matter_frame_runs`, `SELECT attributes FROM ops.domain_event_outbox`}
	ledger := []string{`SELECT 1 FROM ops.matter_frame_jobs`, `SELECT 1 FROM ops.matter_frames`, `SELECT 1 FROM ops.matter_frame_runs`, `SELECT ops.frame_bytes(gen_random_uuid(), gen_random_uuid(), 1)`}
	fact := []string{insertFact}
	return map[string][]string{
		"rail_app": join(everybody, verbs, prune, demand, work, publish, content[1:], []string{
			`SELECT firm_id FROM ops.domain_event_outbox`, `SELECT last_error FROM ops.matter_frame_jobs`, `SELECT 1 FROM ops.matter_frame_runs`,
			`SELECT 1 FROM ops.trigger_receipts`, `SELECT 1 FROM ops.audit_log`, `SELECT ops.frame_bytes(gen_random_uuid(), gen_random_uuid(), 1)`,
			`INSERT INTO ops.domain_event_outbox (firm_id, event_name, published_at) VALUES (gen_random_uuid(), 'a.b', now())`,
		}),
		"rail_relay":    join(everybody, verbs, prune, demand, work, content, ledger, fact),
		"rail_worker":   join(everybody, verbs, publish, content[2:]),
		"rail_operator": join(everybody, prune, demand, work, publish, content, fact),
		"rail_readonly": join(everybody, verbs, prune, demand, work, publish, content, fact),
	}
}

func join(lists ...[]string) (out []string) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

func TestWhatEachRoleIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for role, statements := range refused() {
		pool := s.PoolAs(t, role)
		for _, sql := range statements {
			_, err := pool.Exec(t.Context(), sql)
			if pg.SQLState(err) != "42501" {
				t.Errorf("%s may: %s (%v)", role, sql, err)
			}
		}
	}
}

// What each may, beside what the programs do under it in their own tests.
func TestWhatEachRoleMay(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for role, statements := range map[string][]string{
		"rail_app": {insertFact, insertFact + ` ON CONFLICT (event_id) DO NOTHING RETURNING event_id`, `SELECT * FROM ops.current_frames`, `SELECT * FROM ops.matter_status`},
		"rail_relay": {
			`SELECT ops.require_publishing('r')`, `SELECT seq, event_name FROM ops.domain_event_outbox`,
			`UPDATE ops.domain_event_outbox SET published_at = now() WHERE published_at IS NULL`,
		},
		"rail_worker": {
			`SELECT ops.prune('outbox', interval '0', 10)`, `SELECT ops.prune('receipts', interval '0', 10)`, `SELECT ops.prune('runs', interval '0', 10)`,
			`SELECT ops.prune_frames(ARRAY(SELECT firm_id FROM ops.matter_frame_jobs ORDER BY 1), ARRAY(SELECT matter_id FROM ops.matter_frame_jobs ORDER BY firm_id), 1)`,
		},
		"rail_operator": {`SELECT ops.audit('a', 'b', 'c', 'd')`, `SELECT * FROM pg_stat_activity`, `SELECT reason FROM ops.audit_log`},
		"rail_readonly": {`SELECT firm_id, digest FROM ops.matter_frames`, `SELECT * FROM ops.matter_frame_jobs`, `SELECT version FROM ops.schema_version`},
	} {
		pool := s.PoolAs(t, role)
		for _, sql := range statements {
			if _, err := pool.Exec(t.Context(), sql); err != nil {
				t.Errorf("%s may not: %s: %v", role, sql, err)
			}
		}
	}
}

// Whatever takes rows works for the role that may call it, and for nobody else; the
// guards of the tables know the functions when rail_owner owns them.
func TestRetentionWorksUnderTheOwner(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, sql := range []string{`DELETE FROM ops.matter_frames`, `TRUNCATE ops.matter_frames CASCADE`} {
		if _, err := s.PoolAs(t, "rail_migrator").Exec(t.Context(), sql); pg.Constraint(err) != "frames_stay" {
			t.Errorf("the owner itself: %s: %v", sql, err)
		}
	}
	operator := s.PoolAs(t, "rail_operator")
	purged, err := jobs.Actor{Name: "ada", Reason: "asked for"}.Purge(t.Context(), operator, s.theirs)
	if err != nil || purged != (jobs.Purged{Frames: 1, Runs: 1, Jobs: 1}) {
		t.Errorf("purge: %+v, %v", purged, err)
	}
	if got := strs(t, operator, `SELECT action || ' ' || target FROM ops.audit_log`); len(got) != 1 || !strings.HasPrefix(got[0], "matter.purge") {
		t.Errorf("audit log: %v", got)
	}
}
