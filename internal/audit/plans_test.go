package audit

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// node is a node of a plan as EXPLAIN prints it.
type node struct {
	Type  string  `json:"Node Type"`
	Table string  `json:"Relation Name"`
	Loops float64 `json:"Actual Loops"`
	Rows  float64 `json:"Actual Rows"`
	Plans []node  `json:"Plans"`
}

// scans counts the sequential scans of a table that ran; a branch that was planned
// and never executed costs nothing.
func (n node) scans(table string) (ran int) {
	if n.Type == "Seq Scan" && n.Table == table && n.Loops > 0 {
		ran++
	}
	for _, p := range n.Plans {
		ran += p.scans(table)
	}
	return ran
}

func plan(t *testing.T, tx pgx.Tx, sql string, args ...any) node {
	t.Helper()
	var out []byte
	if err := tx.QueryRow(t.Context(), `EXPLAIN (ANALYZE, FORMAT JSON) `+sql, args...).Scan(&out); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal(out, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan
}

const (
	idleSQL = `
INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status, requested_generation, claimed_generation, landed_generation)
SELECT md5((n % 100)::text)::uuid, md5('m' || n)::uuid, 'idle', 1, 1, 1 FROM generate_series(1, $1::int) n`
	queuedSQL = `
INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status, requested_generation, demands_owed, owed_since, queued_at, not_before)
SELECT md5((n % 10)::text)::uuid, md5('q' || n)::uuid, 'queued', 1, 1, now(), now() - interval '1 hour', now() - interval '1 hour' FROM generate_series(1, 50) n`
	runningSQL = `
INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status, requested_generation, claimed_generation, owed_since, run_id, claimed_at, lease_expires_at, attempts)
SELECT md5((n % 10)::text)::uuid, md5('r' || n)::uuid, 'running', 1, 1, now(), gen_random_uuid(), now(), now() - interval '1 hour', 1 FROM generate_series(1, 20) n`
)

// TestFiguresDoNotReadTheIdle: what runs at every scrape and every minute must not
// cost by the number of idle matters.
func TestFiguresDoNotReadTheIdle(t *testing.T) {
	t.Parallel()
	const idle = 200_000
	db := pgtest.New(t)
	err := pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		for _, s := range []struct {
			sql  string
			args []any
		}{{`SET LOCAL session_replication_role = replica`, nil}, {idleSQL, []any{idle}}, {queuedSQL, nil}, {runningSQL, nil}} {
			if _, err := tx.Exec(t.Context(), s.sql, s.args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), `ANALYZE ops.matter_frame_jobs`); err != nil {
		t.Fatal(err)
	}
	canary := rail.Canary()
	queries := map[string]struct {
		sql  string
		args []any
	}{
		"figures": {figuresSQL, []any{canary.Firm, canary.Matter}}, "oldest owed": {oldestOwedSQL, []any{canary.Firm}},
		"oldest running": {oldestRunningSQL, []any{canary.Firm}}, "firms": {firmsSQL, []any{canary.Firm}},
	}
	o := CheckOptions{Window: time.Hour}.withDefaults()
	for _, i := range invariants() {
		if i.recent != "" {
			queries[i.name] = struct {
				sql  string
				args []any
			}{i.query(o), []any{o.args()}}
		}
	}
	err = snapshot(t.Context(), db.Pool, time.Minute, func(tx pgx.Tx) error {
		if n := plan(t, tx, `SELECT max(attempts) FROM ops.matter_frame_jobs`); n.scans("matter_frame_jobs") == 0 {
			t.Errorf("the test does not see a scan: %+v", n)
		}
		for name, q := range queries {
			if n := plan(t, tx, q.sql, q.args...); n.scans("matter_frame_jobs") > 0 {
				t.Errorf("%s reads every job: %+v", name, n)
			}
		}
		f, err := readFigures(t.Context(), tx)
		if err != nil {
			return err
		}
		if !f.Estimated || f.Idle < idle*9/10 || f.Idle > idle*11/10 || f.Queued != 50 || f.Running != 20 {
			t.Errorf("%+v, want about %d idle", f, idle)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAPoolerIsToldByItsBackends(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		direct, dealt bool
		want          State
	}{{true, false, OK}, {false, false, OK}, {false, true, Warn}, {true, true, Warn}} {
		if d := poolerDiagnosis(c.direct, c.dealt); d.State != c.want {
			t.Errorf("direct %v, dealt %v: %+v", c.direct, c.dealt, d)
		}
	}
}
