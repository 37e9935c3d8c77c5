package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Claimed is a job won: the claim, and what its run was opened with.
type Claimed struct {
	jobs.Claim
	Attempt   int
	RetryOf   rail.UUID // run of the attempt before, since the last landing
	Demands   int64     // demands since the last landing that this build serves
	Authority int64     // epoch of authority over the matter that the claim was made under
	OwedSince time.Time // oldest demand not yet in a landed frame
	// leased is this process's own instant before the call: from here, by the
	// monotonic clock, the lease is known to hold.
	leased time.Time
}

const lastClaimOfFirm = `(SELECT r.started_at FROM ops.matter_frame_runs r WHERE r.firm_id = f.firm_id ORDER BY r.started_at DESC LIMIT 1)`

func highestOf(alias string) string {
	return `(SELECT max(r.generation) FROM ops.matter_frame_runs r WHERE r.firm_id = ` + alias + `.firm_id AND r.matter_id = ` + alias + `.matter_id)`
}

// openCTE inserts the run of every claimed job in the claim's own statement: there
// is no instant at which a claim has no run.
func openCTE() string {
	return `, opened AS (
  INSERT INTO ops.matter_frame_runs (run_id, firm_id, matter_id, generation, attempt, retry_of, worker, builder, demands, authority_epoch, traceparent)
  SELECT c.run_id, c.firm_id, c.matter_id, c.generation, c.attempts,
         (SELECT r.run_id FROM ops.matter_frame_runs r
           WHERE r.firm_id = c.firm_id AND r.matter_id = c.matter_id AND r.generation > c.landed_generation
           ORDER BY r.generation DESC LIMIT 1),
         @worker::text, CASE WHEN c.firm_id = @canary::uuid THEN 'canary' ELSE @builder::text END, c.demands_owed, c.authority_epoch,
         ` + rail.RunTraceSQL("c.run_id") + `
    FROM claimed c
  RETURNING run_id, firm_id, matter_id, generation, attempt, retry_of, demands, authority_epoch
)
SELECT o.firm_id, o.matter_id, o.generation, o.run_id, o.attempt, o.retry_of, o.demands, o.authority_epoch, c.owed_since
  FROM opened o JOIN claimed c ON c.run_id = o.run_id`
}

// ClaimSQL is the batch claim with its runs, one statement.
func ClaimSQL() string { return jobs.ClaimCTE(lastClaimOfFirm, highestOf("p")) + openCTE() }

// ClaimKeySQL is the claim of one named matter with its run.
func ClaimKeySQL() string { return jobs.ClaimKeyCTE(highestOf("j")) + openCTE() }

// constant: the texts, put together and taken apart once
var (
	claimStatement    = pg.NewStatement(ClaimSQL())
	claimKeyStatement = pg.NewStatement(ClaimKeySQL())
)

// ClaimOptions say how a claim is made.
type ClaimOptions struct {
	Worker  string
	Builder string
	Lease   time.Duration
	PerFirm int         // most running builds of one firm across the fleet, 0 for no limit
	Total   int         // most running builds of the fleet, 0 for no limit
	Only    rail.UUID   // one firm, or the nil UUID for all
	Scan    int         // queued rows of a firm that are looked at, 0 for all
	Reach   jobs.Reach  // how far back
	runs    []rail.UUID // fresh ids for what is won; nil: made here
}

// Claim claims up to n jobs, the fairest first, and opens their runs. Any number
// of callers may race; each job is won once. Fewer than n, none included, is a
// normal answer.
func Claim(ctx context.Context, db pg.DB, n int, o ClaimOptions) ([]Claimed, error) {
	args := o.args(n)
	args["slots"], args["per_firm"], args["total"] = n, o.PerFirm, o.Total
	args["only"], args["scan"] = o.Only, nil
	if o.Scan > 0 {
		args["scan"] = o.Scan
	}
	o.Reach.Args(args, o.PerFirm > 0 || o.Total > 0)
	return claim(ctx, db, claimStatement, args)
}

// ClaimKey claims one matter whatever it waits for, except another's live claim, a
// pause or a person's park; none is a normal answer.
func ClaimKey(ctx context.Context, db pg.DB, k rail.Key, p rail.Priority, o ClaimOptions) ([]Claimed, error) {
	args := o.args(1)
	args["firm"], args["matter"], args["priority"] = k.Firm, k.Matter, int16(p)
	return claim(ctx, db, claimKeyStatement, args)
}

func (o ClaimOptions) args(n int) pgx.NamedArgs {
	if o.runs == nil {
		o.runs = newRuns(n)
	}
	return pgx.NamedArgs{"worker": o.Worker, "builder": o.Builder, "lease": o.Lease, "canary": rail.Canary().Firm, "runs": o.runs}
}

func newRuns(n int) []rail.UUID {
	out := make([]rail.UUID, n)
	for i := range out {
		out[i] = rail.NewUUID()
	}
	return out
}

func claim(ctx context.Context, db pg.DB, s *pg.Statement, args pgx.NamedArgs) ([]Claimed, error) {
	before := time.Now()
	rows, err := db.Query(ctx, s.SQL(), s.With(args))
	if err != nil {
		return nil, fmt.Errorf("runs.Claim: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c Claimed, err error) {
		err = r.Scan(&c.Key.Firm, &c.Key.Matter, &c.Token.Generation, &c.Token.Run, &c.Attempt, &c.RetryOf, &c.Demands, &c.Authority, &c.OwedSince)
		c.leased = before
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("runs.Claim: %w", err)
	}
	return out, nil
}

// claimLimited is Claim with a fleet-wide limit set: exact, because claims are
// then serialised by a lock that is taken before the pick's snapshot.
func claimLimited(ctx context.Context, db pg.Beginner, n int, o ClaimOptions) (out []Claimed, err error) {
	err = pg.InTx(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, jobs.DispatchLockSQL); err != nil {
			return fmt.Errorf("runs.Claim: dispatch lock: %w", err)
		}
		out, err = Claim(ctx, tx, n, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
