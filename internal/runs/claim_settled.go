package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// ClaimSettled is Claim, within the limits where some are set, with its ambiguity
// settled: when the answer is lost, the claim may have been won all the same, and
// the runs that it opened under the ids made here say so. They are built as if
// nothing had happened; unasked they would cost a lease of silence and an attempt.
// It asks more than once, as a statement whose client has gone may still be at
// work, and while nobody answers for as long as a lease.
func ClaimSettled(ctx context.Context, db DB, n int, o ClaimOptions, pause func(context.Context, int)) ([]Claimed, error) {
	o.runs = newRuns(n)
	before := time.Now()
	claim := Claim
	if o.PerFirm > 0 || o.Total > 0 {
		claim = func(ctx context.Context, _ pg.DB, n int, o ClaimOptions) ([]Claimed, error) {
			return claimLimited(ctx, db, n, o)
		}
	}
	out, err := within(ctx, claimTimeout, func(ctx context.Context) ([]Claimed, error) { return claim(ctx, db, n, o) })
	if err == nil || !pg.IsUnknownOutcome(err) {
		return out, err
	}
	asking, none := time.Now(), 0
	for try := 1; time.Since(asking) < o.Lease && none < askedForNone && ctx.Err() == nil; try++ {
		out, asked := within(ctx, 5*time.Second, func(ctx context.Context) ([]Claimed, error) { return opened(ctx, db, o.runs) })
		if asked == nil && len(out) > 0 {
			return leasedFrom(before, out), nil
		}
		if asked == nil {
			none++
		}
		pause(ctx, try)
	}
	return nil, err
}

const (
	// claimTimeout bounds one claim: a batch of hundreds on a busy server takes its
	// time, and giving it up in the middle settles nothing.
	claimTimeout = 30 * time.Second
	askedForNone = 3
)

func leasedFrom(before time.Time, claims []Claimed) []Claimed {
	for i := range claims {
		claims[i].leased = before
	}
	return claims
}

func within(ctx context.Context, d time.Duration, f func(context.Context) ([]Claimed, error)) ([]Claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return f(ctx)
}

const openedSQL = `
SELECT firm_id, matter_id, generation, run_id, attempt, retry_of, demands, authority_epoch
  FROM ops.matter_frame_runs WHERE run_id = ANY(@runs::uuid[]) AND outcome = 'running'`

// opened reads which of the runs with these ids were opened and have not ended.
// OwedSince is not known here.
func opened(ctx context.Context, db pg.DB, ids []rail.UUID) ([]Claimed, error) {
	rows, err := db.Query(ctx, openedSQL, pgx.NamedArgs{"runs": ids})
	if err != nil {
		return nil, fmt.Errorf("runs.opened: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c Claimed, err error) {
		err = r.Scan(&c.Key.Firm, &c.Key.Matter, &c.Token.Generation, &c.Token.Run, &c.Attempt, &c.RetryOf, &c.Demands, &c.Authority)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("runs.opened: %w", err)
	}
	return out, nil
}
