package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
)

// errUndo ends a transaction whose work was only to be timed.
var errUndo = errors.New("timed, and rolled back")

// timed runs do in a transaction that is rolled back, n times, and returns the
// median.
func timed(ctx context.Context, db pg.Beginner, n int, do func(pgx.Tx) error) (time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range took {
		begun := time.Now()
		err := pg.InTx(ctx, db, func(tx pgx.Tx) error { return errors.Join(do(tx), errUndo) })
		if !errors.Is(err, errUndo) || ctx.Err() != nil {
			return 0, err
		}
		took[i] = time.Since(begun)
	}
	return quantile(took, .5), nil
}

// step is a statement that is timed in the small and in the large database.
type step struct {
	name string
	run  func(context.Context, pg.DB) error
}

func steps() []step {
	return []step{
		{"claim of 16", func(ctx context.Context, db pg.DB) error {
			_, err := runs.Claim(ctx, db, 16, claimOptions())
			return err
		}},
		{"sweep", func(ctx context.Context, db pg.DB) error { _, err := sweep.Expire(ctx, db, 100, retry()); return err }},
	}
}

// Both databases get the same few rows to work on: a hundred jobs that wait, a
// hundred that run, ten of them past their lease.
const (
	waitingSQL = `
UPDATE ops.matter_frame_jobs SET run_status = 'queued', requested_generation = 3, demands_owed = 1, owed_since = clock_timestamp(),
       queued_at = clock_timestamp(), not_before = clock_timestamp(), priority = 1
 WHERE (firm_id, matter_id) IN (SELECT md5('firm' || i % 1000)::uuid, md5('matter' || i)::uuid FROM generate_series(1, 10) f, generate_series(f, 9999, 1000) i)`
	runningSQL = `
WITH live AS (
  UPDATE ops.matter_frame_jobs SET run_status = 'running', requested_generation = 4, claimed_generation = 4, demands_owed = 1, attempts = 1,
         owed_since = clock_timestamp(), claimed_at = clock_timestamp() - interval '1 minute', run_id = gen_random_uuid(), priority = 1,
         lease_expires_at = clock_timestamp() + CASE WHEN firm_id = md5('firm20')::uuid THEN interval '-1 s' ELSE interval '1 hour' END
   WHERE (firm_id, matter_id) IN (SELECT md5('firm' || i % 1000)::uuid, md5('matter' || i)::uuid FROM generate_series(11, 20) f, generate_series(f, 9999, 1000) i)
  RETURNING run_id, firm_id, matter_id
)
INSERT INTO ops.matter_frame_runs (run_id, firm_id, matter_id, generation, attempt, worker, builder) SELECT run_id, firm_id, matter_id, 4, 1, 'w', 'b' FROM live`
	calmSQL = `
UPDATE ops.matter_frame_jobs SET run_status = 'idle', landed_generation = requested_generation, claimed_generation = requested_generation,
       demands_owed = 0, owed_since = NULL, run_id = NULL, claimed_at = NULL, lease_expires_at = NULL, attempts = 0,
       rebuild_needed = false, rebuild_since = NULL, rebuild_priority = NULL WHERE run_status <> 'idle'`
	vacuumSQL = `VACUUM (ANALYZE) ops.matter_frame_jobs`
)

// scale compares ten thousand idle matters with a million: the rail's own calls,
// and the same statements by hand.
func (b *bench) scale(ctx context.Context) error {
	if err := b.needLarge(ctx); err != nil {
		return err
	}
	for _, db := range []string{small, large} {
		if err := b.do(ctx, db, calmSQL, waitingSQL, runningSQL, vacuumSQL, `VACUUM (ANALYZE) ops.matter_frame_runs`, `CHECKPOINT`); err != nil {
			return err
		}
	}
	for _, s := range steps() {
		if err := b.scaleOf(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return b.do(ctx, large, calmSQL, vacuumSQL)
}

func (b *bench) scaleOf(ctx context.Context, s step) error {
	var t tap
	if err := s.run(ctx, &t); !errors.Is(err, errTapped) {
		return err
	}
	define := map[string]string{}
	script := "BEGIN;\n" + t.script(freshRuns(16), define) + ";\nROLLBACK;\n"
	var times [4][]float64 // rail small, rail large, hand small, hand large; milliseconds
	for range b.plan.rounds {
		for i, db := range []string{small, large} {
			d, err := b.timedOn(ctx, db, 200, s.run)
			if err != nil {
				return err
			}
			tps, err := b.pgbench(ctx, db, 1, time.Second, define, script)
			if err != nil {
				return err
			}
			times[i] = append(times[i], d.Seconds()*1000)
			times[2+i] = append(times[2+i], 1000/tps)
		}
	}
	var m [4]float64
	for i := range times {
		m[i] = quantile(times[i], .5)
	}
	arrow := func(from, to float64) string { return fmt.Sprintf("%.2f → %.2f ms (x%.2f)", from, to, to/from) }
	b.results.add(fmt.Sprintf("%s, %d → %d idle matters", s.name, smallIdle, b.plan.idle),
		arrow(m[0], m[1]), arrow(m[2], m[3]), fmt.Sprintf("%.2f", (m[1]/m[0])/(m[3]/m[2])), "at most 1.2")
	return nil
}

// timedOn is timed on a session of its own; the first calls warm it.
func (b *bench) timedOn(ctx context.Context, db string, n int, run func(context.Context, pg.DB) error) (time.Duration, error) {
	conn, err := pg.Connect(ctx, pg.Options{DSN: b.cluster.DSN(db)})
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	do := func(tx pgx.Tx) error { return run(ctx, tx) }
	if _, err := timed(ctx, conn, 8, do); err != nil {
		return 0, err
	}
	return timed(ctx, conn, n, do)
}

// busy measures the two costs of a pick: many firms, and many rows that cannot be
// taken yet.
func (b *bench) busy(ctx context.Context) error {
	claim := func(n, scan int) func(context.Context, pg.DB) error {
		o := claimOptions()
		o.Scan = scan
		return func(ctx context.Context, db pg.DB) error { _, err := runs.Claim(ctx, db, n, o); return err }
	}
	if err := b.needLarge(ctx); err != nil {
		return err
	}
	if err := b.do(ctx, large, calmSQL, busyFirmsSQL, busyRunningSQL, vacuumSQL); err != nil {
		return err
	}
	for _, n := range []int{1, 16} {
		d, err := b.timedOn(ctx, large, 60, claim(n, 256))
		if err != nil {
			return err
		}
		b.results.add(fmt.Sprintf("claim of %d, 1000 firms with 20 waiting jobs each, 500 running", n), ms(d), "", "", "")
	}
	if err := b.do(ctx, small, calmSQL, settlingSQL, vacuumSQL); err != nil {
		return err
	}
	for _, scan := range []int{256, 0} {
		d, err := b.timedOn(ctx, small, 20, claim(1, scan))
		if err != nil {
			return err
		}
		what := map[int]string{256: "a look at the heads of queues", 0: "a look at everything (at most once a second)"}[scan]
		b.results.add("claim of 1, one firm with 100000 settling jobs: "+what, ms(d), "", "", "")
	}
	return nil
}

const (
	busyFirmsSQL = `
UPDATE ops.matter_frame_jobs SET run_status = 'queued', requested_generation = requested_generation + 1, demands_owed = 1, owed_since = clock_timestamp(),
       queued_at = clock_timestamp() - interval '1 hour' * random(), not_before = clock_timestamp(), priority = 1
 WHERE matter_id IN (SELECT md5('matter' || i)::uuid FROM generate_series(1, 20000) i)`
	busyRunningSQL = `
UPDATE ops.matter_frame_jobs SET run_status = 'running', requested_generation = requested_generation + 1, claimed_generation = requested_generation + 1,
       demands_owed = 1, attempts = 1, owed_since = clock_timestamp(), claimed_at = clock_timestamp(), lease_expires_at = clock_timestamp() + interval '1 hour',
       run_id = gen_random_uuid(), priority = 1
 WHERE matter_id IN (SELECT md5('matter' || i)::uuid FROM generate_series(20001, 20500) i)`
	settlingSQL = `
INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status, requested_generation, demands_owed, owed_since, queued_at, not_before, priority)
SELECT md5('settling')::uuid, md5('settling' || i)::uuid, 'queued', 1, 1, clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '23 hours', 1
  FROM generate_series(1, 100000) i`
)
