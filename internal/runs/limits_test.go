package runs

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/jobs"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
)

// A limit that is set is exact: sixteen claimers never run one more than it, and
// leave no slot empty while something is ready.
func TestLimitsAreExact(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]ClaimOptions{
		"per firm":      {PerFirm: 3},
		"total":         {Total: 10},
		"both":          {PerFirm: 3, Total: 7},
		"one at a time": {Total: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			l := &limited{t: t, pool: db.NewPool(t, 16), o: o}
			l.o.Worker, l.o.Builder, l.o.Lease = "w", "b", time.Minute
			l.queue(4, 40)
			l.race(16, 12)
			l.fill()
			db.CheckLedger(t)
		})
	}
}

const limitedFirms = 4

type limited struct {
	t    *testing.T
	pool *pgxpool.Pool
	o    ClaimOptions
	won  atomic.Int64
}

func (l *limited) queue(firms, each int) {
	var wants []jobs.Want
	for range firms {
		firm := rail.NewUUID()
		for range each {
			wants = append(wants, jobs.Want{Key: rail.Key{Firm: firm, Matter: rail.NewUUID()}, Count: 1})
		}
	}
	if _, err := jobs.Demand(l.t.Context(), l.pool, wants, time.Second); err != nil {
		l.t.Fatal(err)
	}
}

// race lets claimers claim two or three at a time, and hand the batch before back:
// together they want more than any limit.
func (l *limited) race(claimers, rounds int) {
	var all sync.WaitGroup
	for range claimers {
		all.Go(func() {
			var held []Claimed
			for range rounds {
				got := l.claim(2 + rand.N(2))
				l.check(l.t.Context())
				l.release(held)
				held = got
			}
			l.release(held)
		})
	}
	all.Wait()
	if l.won.Load() == 0 {
		l.t.Error("nothing was ever claimed")
	}
}

func (l *limited) claim(n int) []Claimed {
	got, err := claimLimited(l.t.Context(), l.pool, n, l.o)
	if err != nil {
		l.t.Errorf("claim: %v", err)
	}
	l.won.Add(int64(len(got)))
	return got
}

func (l *limited) release(claims []Claimed) {
	for _, c := range claims {
		if _, err := Release(l.t.Context(), l.pool, c.Claim, Failure{Kind: "interrupted"}, 0); err != nil {
			l.t.Errorf("release: %v", err)
		}
	}
}

const runningSQL = `
SELECT coalesce(sum(n), 0), coalesce(max(n), 0) FROM (
  SELECT count(*) AS n FROM ops.matter_frame_jobs WHERE run_status = 'running' GROUP BY firm_id) f`

// check looks at one committed instant.
func (l *limited) check(ctx context.Context) (total, most int) {
	if err := l.pool.QueryRow(ctx, runningSQL).Scan(&total, &most); err != nil {
		l.t.Errorf("count: %v", err)
	}
	if (l.o.Total > 0 && total > l.o.Total) || (l.o.PerFirm > 0 && most > l.o.PerFirm) {
		l.t.Errorf("%d run, %d of one firm; limits %d and %d", total, most, l.o.Total, l.o.PerFirm)
	}
	return total, most
}

// fill claims from all sides, and wants every allowed slot taken: with the claims
// serialised none comes back empty while there is room.
func (l *limited) fill() {
	want := limitedFirms * 40
	if l.o.PerFirm > 0 {
		want = limitedFirms * l.o.PerFirm
	}
	if l.o.Total > 0 {
		want = min(want, l.o.Total)
	}
	var all sync.WaitGroup
	for range want {
		all.Go(func() {
			if n := len(l.claim(1)); n != 1 {
				l.t.Errorf("a claim with room left won %d", n)
			}
		})
	}
	all.Wait()
	if total, _ := l.check(l.t.Context()); total != want {
		l.t.Errorf("%d run of %d allowed", total, want)
	}
	if n := len(l.claim(5)); n != 0 {
		l.t.Errorf("%d beyond the limit", n)
	}
}
