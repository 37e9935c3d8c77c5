package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

const (
	cycleFirms   = 10
	cycleMatters = 20_000
	frame        = `{"parties":["A","B"],"chronology":[{"on":"2024-05-01","what":"filed"}],"assertions":[]}`
)

func claimOptions() runs.ClaimOptions {
	return runs.ClaimOptions{Worker: "bench", Builder: "bench", Lease: time.Minute, Scan: 256}
}

// cycle measures claims of one job followed by their landing: two statements, two
// commits.
func (b *bench) cycle(ctx context.Context) error {
	pool, err := b.pool(ctx, small, b.plan.clients)
	if err != nil {
		return err
	}
	defer pool.Close()
	script, define, err := cycleScript(ctx)
	if err != nil {
		return err
	}
	p, err := turns(b.plan.rounds,
		func() (float64, error) {
			if err := b.fillQueue(ctx, small); err != nil {
				return 0, err
			}
			return b.clients(ctx, func(ctx context.Context) error { return claimAndLand(ctx, pool) })
		},
		func() (float64, error) {
			if err := b.fillQueue(ctx, small); err != nil {
				return 0, err
			}
			return b.landedByHand(ctx, define, script)
		})
	if err != nil {
		return err
	}
	b.results.addRates("claim and land, one at a time", p, "0.6")
	return nil
}

func claimAndLand(ctx context.Context, db runs.DB) error {
	var won []runs.Claimed
	for len(won) == 0 { // none is a normal answer while others claim
		var err error
		if won, err = runs.Claim(ctx, db, 1, claimOptions()); err != nil {
			return err
		}
	}
	l, err := landing(won[0].Claim)
	if err != nil {
		return err
	}
	_, err = runs.Land(ctx, db, l)
	return err
}

func landing(c jobs.Claim) (runs.Landing, error) {
	checked, err := frames.Check([]byte(frame), 1<<20)
	return runs.Landing{Claim: c, Digest: checked.Digest, Frame: runs.Frame{
		JSON: []byte(frame), SchemaVersion: "bench/1", BuilderVersion: "bench/1",
	}}, err
}

// landedByHand is pgbench's rate of landings: a claim that won nothing counts as a
// transaction for it, but not here.
func (b *bench) landedByHand(ctx context.Context, define map[string]string, script string) (float64, error) {
	counts := [2]int64{}
	var tps float64
	for i := range counts {
		if i == 1 {
			var err error
			if tps, err = b.pgbench(ctx, small, b.plan.clients, b.plan.turn, define, script); err != nil {
				return 0, err
			}
		}
		if err := b.scan(ctx, small, &counts[i], `SELECT count(*) FROM ops.matter_frame_runs WHERE outcome = 'landed'`); err != nil {
			return 0, err
		}
	}
	return tps * min(1, float64(counts[1]-counts[0])/float64(b.transactionsByHand)), nil
}

// freshRuns stands for the ids that a claimant makes: they must be new each time.
func freshRuns(n int) map[string]string {
	return map[string]string{"runs": fmt.Sprintf("ARRAY(SELECT gen_random_uuid() FROM generate_series(1, %d))", n)}
}

// cycleScript is the same by hand: the landing takes its token from the claim.
func cycleScript(ctx context.Context) (script string, define map[string]string, err error) {
	var claim, land tap
	if _, err := runs.Claim(ctx, &claim, 1, claimOptions()); !errors.Is(err, errTapped) {
		return "", nil, err
	}
	l, err := landing(jobs.Claim{Key: rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()}})
	if err != nil {
		return "", nil, err
	}
	if _, err := runs.Land(ctx, &land, l); !errors.Is(err, errTapped) {
		return "", nil, err
	}
	// a claim that won nothing is followed by a landing that is refused
	define = map[string]string{"firm_id": l.Key.Firm.String(), "matter_id": l.Key.Matter.String(), "generation": "0", "run_id": l.Key.Matter.String()}
	won := map[string]string{"firm": ":firm_id", "matter": ":matter_id", "generation": ":generation", "run": ":run_id"}
	return claim.script(freshRuns(1), define) + " \\aset\n" + land.script(won, define) + ";\n", define, nil
}

// fillQueue demands every matter of a few firms, where too few are left for a turn.
func (b *bench) fillQueue(ctx context.Context, db string) error {
	var left int
	if err := b.scan(ctx, db, &left, `SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'queued'`); err != nil || left > cycleMatters/2 {
		return err
	}
	return b.do(ctx, db, fmt.Sprintf(`
SELECT count(*) FROM (SELECT array_agg(md5('busy' || i %% %[1]d)::uuid) AS firms, array_agg(md5('job' || i)::uuid) AS matters
                        FROM generate_series(1, %[2]d) i) k,
  ops.demand(k.firms, k.matters, array_fill(1, ARRAY[%[2]d]), array_fill(1::smallint, ARRAY[%[2]d]),
             array_fill(interval '0', ARRAY[%[2]d]), interval '0')`, cycleFirms, cycleMatters),
		`DELETE FROM ops.outbox_undecided`, vacuumSQL, `CHECKPOINT`)
}
