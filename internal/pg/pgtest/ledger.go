package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// What must hold of the ledger between any two transactions, each as a query for
// the rows that break it.
const brokenSQL = `
WITH broken (what, n) AS (
  SELECT 'a landed generation without its frame', count(*) FROM ops.matter_frame_jobs j
   WHERE j.landed_generation > 0 AND NOT EXISTS (SELECT 1 FROM ops.matter_frames f
         WHERE f.firm_id = j.firm_id AND f.matter_id = j.matter_id AND f.generation = j.landed_generation)
  UNION ALL
  SELECT 'a frame above the landed generation', count(*) FROM ops.matter_frames f
    LEFT JOIN ops.matter_frame_jobs j ON j.firm_id = f.firm_id AND j.matter_id = f.matter_id
   WHERE j.landed_generation IS NULL OR f.generation > j.landed_generation
  UNION ALL
  SELECT 'a frame whose run did not land it', count(*) FROM ops.matter_frames f
    LEFT JOIN ops.matter_frame_runs r ON r.run_id = f.run_id
     AND r.firm_id = f.firm_id AND r.matter_id = f.matter_id AND r.generation = f.generation
   WHERE r.outcome IS DISTINCT FROM 'landed'
  UNION ALL
  SELECT 'landed runs that are not conserved as frames', abs(
    (SELECT count(*) FROM ops.matter_frame_runs WHERE outcome = 'landed') + (SELECT taken FROM ops.retention_counters WHERE what = 'landed_runs')
    - (SELECT count(*) FROM ops.matter_frames) - (SELECT taken FROM ops.retention_counters WHERE what = 'frames'))
  UNION ALL
  SELECT 'frames that were built out of order', count(*) FROM (
    SELECT built_at < lag(built_at) OVER (PARTITION BY firm_id, matter_id ORDER BY generation) AS wrong FROM ops.matter_frames) f
   WHERE f.wrong
  UNION ALL
  SELECT 'idle with something owed', count(*) FROM ops.matter_frame_jobs
   WHERE run_status = 'idle' AND (landed_generation <> requested_generation OR owed_since IS NOT NULL OR demands_owed <> 0)
  UNION ALL
  SELECT 'demand that is not owed', count(*) FROM ops.matter_frame_jobs
   WHERE landed_generation < requested_generation AND owed_since IS NULL
  UNION ALL
  SELECT 'running without its running run', count(*) FROM ops.matter_frame_jobs j
    LEFT JOIN ops.matter_frame_runs r ON r.run_id = j.run_id AND r.generation = j.claimed_generation
   WHERE j.run_status = 'running' AND r.outcome IS DISTINCT FROM 'running'
  UNION ALL
  SELECT 'a running run that no claim serves', count(*) FROM ops.matter_frame_runs r
    LEFT JOIN ops.matter_frame_jobs j ON j.firm_id = r.firm_id AND j.matter_id = r.matter_id
   WHERE r.outcome = 'running' AND j.run_id IS DISTINCT FROM r.run_id
  UNION ALL
  SELECT 'a fact neither undecided nor decided', count(*) FROM ops.domain_event_outbox o
   WHERE NOT EXISTS (SELECT 1 FROM ops.outbox_undecided u WHERE u.event_id = o.event_id)
     AND NOT EXISTS (SELECT 1 FROM ops.trigger_receipts r WHERE r.event_id = o.event_id)
  UNION ALL
  SELECT 'a failure noted of a fact that is published or gone', count(*) FROM ops.outbox_failures f
   WHERE NOT EXISTS (SELECT 1 FROM ops.domain_event_outbox o WHERE o.event_id = f.event_id AND o.published_at IS NULL)
)
SELECT what, n FROM broken WHERE n > 0`

// CheckLedger fails the test for every law of the ledger that its rows break.
func (d *DB) CheckLedger(t testing.TB) {
	t.Helper()
	rows, err := d.Pool.Query(t.Context(), brokenSQL)
	if err != nil {
		t.Fatal(err)
	}
	var what string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&what, &n}, func() error {
		t.Errorf("the ledger is broken: %s (%d)", what, n)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
