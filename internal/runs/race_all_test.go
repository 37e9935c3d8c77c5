package runs_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// Every transition at once, by eight workers and operators on five matters: nothing
// but a fence may refuse, nothing may deadlock, and the ledger means something after
// it.
func TestRaceOfEverything(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := &crowd{t: t, pool: db.NewPool(t, 12)}
	firm := rail.NewUUID()
	for range 5 {
		c.keys = append(c.keys, rail.Key{Firm: firm, Matter: rail.NewUUID()})
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var held []jobs.Claim
			for range races() / 2 {
				held = c.step(held)
			}
		})
	}
	all.Wait()
	db.CheckLedger(t)
}

type crowd struct {
	t    *testing.T
	pool *pgxpool.Pool
	keys []rail.Key
}

// may fails the test for every refusal but a fence.
func (c *crowd) may(what string, err error) {
	if err != nil && !errors.Is(err, runs.ErrFenced) {
		c.t.Errorf("%s: %v", what, err)
	}
}

func (c *crowd) step(held []jobs.Claim) []jobs.Claim {
	ctx, k := c.t.Context(), c.keys[rand.N(len(c.keys))]
	if len(held) > 0 && rand.N(3) > 0 {
		return c.end(held)
	}
	switch rand.N(12) {
	case 0, 1, 2, 3:
		wants := make([]jobs.Want, 3)
		for i := range wants {
			wants[i] = jobs.Want{Key: c.keys[rand.N(len(c.keys))], Count: 1, Priority: rail.Priority(rand.N(3))}
		}
		_, err := jobs.Demand(ctx, c.pool, wants, time.Second)
		c.may("demand", err)
	case 4, 5:
		got, err := runs.Claim(ctx, c.pool, 3, claimOptions())
		c.may("claim", err)
		held = append(held, claimsOf(got)...)
	case 6, 7:
		_, err := c.pool.Exec(ctx, `UPDATE ops.matter_frame_jobs SET lease_expires_at = clock_timestamp() WHERE firm_id = $1 AND matter_id = $2 AND run_status = 'running'`, k.Firm, k.Matter)
		c.may("age", err)
		got, err := runs.ClaimKey(ctx, c.pool, k, rail.Standard, claimOptions())
		c.may("claim by key", err)
		held = append(held, claimsOf(got)...)
	case 8:
		swept(c.t, c.pool)
	default:
		c.operate(k)
	}
	return held
}

func claimsOf(got []runs.Claimed) (out []jobs.Claim) {
	for _, c := range got {
		out = append(out, c.Claim)
	}
	return out
}

// end tries one of the writes of a holder, whether its token is still served or not.
func (c *crowd) end(held []jobs.Claim) []jobs.Claim {
	ctx, i := c.t.Context(), rand.N(len(held))
	var err error
	switch rand.N(5) {
	case 0:
		_, err := jobs.Renew(ctx, c.pool, held, lease)
		c.may("renew", err)
		return held
	case 1:
		_, err = runs.Fail(ctx, c.pool, held[i], runs.Failure{Kind: "other"}, runs.Retry{MaxAttempts: 4, Backoff: time.Microsecond, BackoffMax: time.Microsecond})
	case 2:
		_, err = runs.Release(ctx, c.pool, held[i], runs.Failure{Kind: "interrupted"}, 0)
	default:
		_, err = runs.Land(ctx, c.pool, landing(c.t, held[i], `{}`))
	}
	c.may("end", err)
	if errors.Is(err, runs.ErrFenced) {
		c.may("note", runs.NoteRefused(ctx, c.pool, held[i].Token.Run, true))
	}
	return slices.Delete(held, i, i+1)
}

func (c *crowd) operate(k rail.Key) {
	ctx, op := c.t.Context(), jobs.Actor{Name: "op", Reason: "why"}
	var err error
	switch rand.N(8) {
	case 0, 1:
		_, err = op.Park(ctx, c.pool, k)
	case 2, 3, 4:
		_, err = op.Unpark(ctx, c.pool, k)
	case 5:
		_, err = op.Demand(ctx, c.pool, reversed(c.keys), rail.Interactive)
	case 6:
		_, err = outbox.BumpEpoch(ctx, c.pool, time.Now(), "op", "why")
	case 7:
		_, err = op.Purge(ctx, c.pool, k)
	}
	c.may("operate", err)
}

// reversed is the order in which an operator's list must not lock.
func reversed(keys []rail.Key) []rail.Key {
	out := slices.Clone(keys)
	slices.Reverse(out)
	return out
}
