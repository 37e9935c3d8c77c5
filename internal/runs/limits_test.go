package runs

import (
	"context"
	"math/rand/v2"
	"runtime"
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

// race lets claimers claim two at a time and hand back, each so many times.
func (l *limited) race(claimers, rounds int) {
	var all sync.WaitGroup
	for range claimers {
		all.Go(func() {
			for range rounds {
				l.claimAndRelease(l.t.Context())
			}
		})
	}
	all.Wait()
	if l.won.Load() == 0 {
		l.t.Error("nothing was ever claimed")
	}
}

func (l *limited) claimAndRelease(ctx context.Context) {
	got, err := claimLimited(ctx, l.pool, 2, l.o)
	if err != nil {
		l.t.Errorf("claim: %v", err)
		return
	}
	l.won.Add(int64(len(got)))
	l.check(ctx)
	for range rand.N(100) {
		runtime.Gosched()
	}
	for _, c := range got {
		if _, err := Release(ctx, l.pool, c.Claim, Failure{Kind: "interrupted"}, 0); err != nil {
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
	var taken atomic.Int64
	var all sync.WaitGroup
	for range want {
		all.Go(func() {
			got, err := claimLimited(l.t.Context(), l.pool, 1, l.o)
			if err != nil || len(got) != 1 {
				l.t.Errorf("a claim with room left won %d, %v", len(got), err)
			}
			taken.Add(int64(len(got)))
		})
	}
	all.Wait()
	if total, _ := l.check(l.t.Context()); total != want {
		l.t.Errorf("%d run of %d allowed", total, want)
	}
	if got, err := claimLimited(l.t.Context(), l.pool, 5, l.o); err != nil || len(got) != 0 {
		l.t.Errorf("beyond the limit: %d, %v", len(got), err)
	}
}
