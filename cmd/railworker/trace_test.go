package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"briefrail/internal/model/history"
	"briefrail/internal/model/specs"
	"briefrail/internal/pg/pgtest"
)

// campaign is a fleet that is treated badly while facts come in.
type campaign struct {
	t        *testing.T
	db       *pgtest.DB
	settings settings
	fleet    [3]*process
	done     chan struct{}

	kills, stalls, stops int
}

// moody answers soon as a rule; now and then it takes longer than a stop waits, or
// longer than a lease, or fails, for once or for good.
func moody(ctx context.Context, w http.ResponseWriter, c call) {
	switch n := rand.N(100); {
	case n < 4:
		http.Error(w, "not now", http.StatusInternalServerError)
	case n < 5:
		http.Error(w, "not this one", http.StatusUnprocessableEntity)
	case n < 25:
		rest(ctx, 300*time.Millisecond+rand.N(3*time.Second))
		answer(w, c)
	default:
		rest(ctx, rand.N(60*time.Millisecond))
		answer(w, c)
	}
}

func (c *campaign) launch(i int) { c.fleet[i] = launch(c.t, c.settings, "run") }

// mischief kills, stops and stalls one worker at a time, until told to end.
func (c *campaign) mischief() {
	for {
		select {
		case <-c.done:
			return
		case <-c.t.Context().Done():
			return
		case <-time.After(200*time.Millisecond + rand.N(600*time.Millisecond)):
		}
		i := rand.N(len(c.fleet))
		switch rand.N(3) {
		case 0:
			c.fleet[i].kill()
			c.launch(i)
			c.kills++
		case 1:
			c.fleet[i].signal(syscall.SIGTERM)
			if waitFor(c.t.Context(), 30*time.Second, c.fleet[i].gone) {
				c.launch(i)
				c.stops++
			}
		case 2: // past its lease; its builder's answers arrive meanwhile
			c.fleet[i].signal(syscall.SIGSTOP)
			rest(c.t.Context(), 2500*time.Millisecond+rand.N(time.Second))
			c.fleet[i].signal(syscall.SIGCONT)
			c.stalls++
		}
	}
}

// feed commits facts until told to end.
func (c *campaign) feed(l *load) error {
	pool := c.db.NewPool(c.t, 4)
	var g errgroup.Group
	for range l.producers {
		g.Go(func() error {
			for {
				select {
				case <-c.done:
					return nil
				case <-c.t.Context().Done():
					return c.t.Context().Err()
				case <-time.After(rand.N(80 * time.Millisecond)):
				}
				if err := l.produce(c.t.Context(), pool, l.keys[rand.N(len(l.keys))]); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

const seenSQL = `SELECT count(DISTINCT outcome) FILTER (WHERE outcome IN ('landed', 'failed', 'expired', 'released')) = 4
  AND count(late_write_at) >= 3 FROM ops.matter_frame_runs`

// last returns when the time is over and what must be seen has been seen, or when
// waiting longer is no use.
func (c *campaign) last(d time.Duration) {
	pass(c.t, d)
	if !waitFor(c.t.Context(), 5*time.Minute, func() bool { return peek[bool](c.t.Context(), c.db.Pool, seenSQL) }) {
		c.t.Error("the campaign was too mild")
	}
}

func (c *campaign) history() []history.Change {
	c.t.Helper()
	rows, err := c.db.Pool.Query(c.t.Context(), history.ReadSQL)
	if err != nil {
		c.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		c.t.Fatal(err)
	}
	changes, err := history.Parse(lines)
	if err != nil {
		c.t.Fatal(err)
	}
	return changes
}

// A history of real workers is one of the model: whatever is done to them, every step
// of every matter is one that the searched state machine takes, and the landings are
// those of a register that refuses stale tokens. The same history with one lie in it is
// neither.
func TestHistoryOfACampaignIsOfTheModel(t *testing.T) {
	t.Parallel()
	changes := recordedCampaign(t)
	report, err := history.Check(changes, history.Options{Attempts: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	for _, word := range []string{
		specs.LedgerDemand.String(), specs.LedgerClaims.String(), specs.LedgerRenews.String(), specs.LedgerLands.String(), specs.LedgerFails.String(),
		specs.LedgerReleases.String(), specs.LedgerLapses.String(), specs.LedgerSweeps.String(), history.LateRefused, history.FollowUps,
	} {
		if report.Counts[word] == 0 {
			t.Errorf("%s: never seen", word)
		}
	}
	verdict, writes, refused := linearizable(t, changes)
	t.Logf("%d writes of %d registers, %d of them refused: porcupine says %s", writes, report.Matters, refused, verdict)
	if verdict != porcupine.Ok || refused != report.Counts[history.LateRefused] {
		t.Errorf("porcupine says %s; %d refusals", verdict, refused)
	}
	assertForgeriesSeen(t, changes)
}

func recordedCampaign(t *testing.T) []history.Change {
	t.Helper()
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), history.RecordSQL); err != nil {
		t.Fatal(err)
	}
	builder := serve(t, moody)
	c := &campaign{t: t, db: db, done: make(chan struct{}), settings: quick(db.DSN, builder.URL).with(settings{
		"RETRY_MAX_ATTEMPTS": "3", "FRAMES_KEEP": "10000", "WORKER_STOP_GRACE": "200ms", "WORKER_SLOTS": "8",
	})}
	for i := range c.fleet {
		c.launch(i)
	}
	l := &load{keys: newKeys(5, 30), producers: 4, pause: 10 * time.Millisecond}
	begun := time.Now()
	var all sync.WaitGroup
	all.Go(c.mischief)
	all.Go(func() {
		if err := c.feed(l); err != nil {
			t.Error(err)
		}
	})
	c.last(time.Duration(sized(20, 300)) * time.Second)
	close(c.done)
	all.Wait()
	builder.follow(nil)
	awaitQuiet(t, db.Pool, 2*time.Minute)
	t.Logf("%s: %d facts, %d builder calls, %d kills, %d stalls past the lease, %d stops",
		time.Since(begun).Round(time.Second), l.committed.Load(), builder.count(), c.kills, c.stalls, c.stops)
	for _, p := range c.fleet {
		p.kill()
	}
	assertSound(t, db.Pool)
	assertAllRecorded(t, db)
	return c.history()
}

// assertAllRecorded: where the history ends is where the tables are.
func assertAllRecorded(t *testing.T, db *pgtest.DB) {
	t.Helper()
	if n := one[int](t, db.Pool, `SELECT count(*) FROM ops.matter_frame_jobs j LEFT JOIN (
		SELECT DISTINCT ON (after->>'matter_id') after->>'matter_id' AS matter, after FROM history.changes
		 WHERE what = 'job' ORDER BY 1, n DESC) h ON h.matter = j.matter_id::text
		WHERE (h.after->>'run_status', h.after->>'requested_generation', h.after->>'landed_generation')
		      IS DISTINCT FROM (j.run_status, j.requested_generation::text, j.landed_generation::text)`); n != 0 {
		t.Errorf("the history of %d matters ends elsewhere than their rows", n)
	}
}

// assertForgeriesSeen tells every lie in copies of the history, early and later on.
func assertForgeriesSeen(t *testing.T, changes []history.Change) {
	t.Helper()
	var traces, registers []string
	for _, f := range history.Forgeries() {
		for _, skip := range []int{0, 2} {
			forged, n, ok := f.Forge(changes, skip)
			if !ok {
				t.Errorf("%s: there is nothing to forge", f.Name)
				continue
			}
			var no *history.NoStep
			if _, err := history.Check(forged, history.Options{Attempts: 3}); !errors.As(err, &no) || no.N != n {
				t.Errorf("%s, told of change %d: %v", f.Name, n, err)
			}
			traces = append(traces, f.Name)
			if !f.Register {
				continue
			}
			if verdict, _, _ := linearizable(t, forged); verdict != porcupine.Illegal {
				t.Errorf("%s, told of change %d: porcupine says %s", f.Name, n, verdict)
			}
			registers = append(registers, f.Name)
		}
	}
	t.Logf("%d forged histories are no steps of the model, %d are no register: %s", len(traces), len(registers), strings.Join(registers, ", "))
}
