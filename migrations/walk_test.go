package migrations_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
	"briefrail/internal/sweep"
	"briefrail/internal/trigger"
)

// TestLegalStepsAreNeverRefused walks a few matters through random legal steps by
// the rail's own functions. A guard that refuses one of them would be worse than
// none. RAIL_TEST_STEPS walks further, RAIL_TEST_SEED the same way again.
func TestLegalStepsAreNeverRefused(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	n := int(number("RAIL_TEST_STEPS", 10_000))
	for i := range n {
		w.step()
		if t.Failed() {
			t.Fatalf("at step %d", i)
		}
		if i%1000 == 999 {
			w.db.CheckLedger(t)
		}
	}
	w.db.CheckLedger(t)
	t.Logf("steps taken: %v", w.taken)
	for _, s := range walkSteps() {
		if n >= 5000 && w.taken[s.name] == 0 {
			t.Errorf("%d steps never managed to %s", n, s.name)
		}
	}
}

func number(env string, fallback uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(env), 10, 64); err == nil {
		return n
	}
	return fallback
}

// walk knows which token each matter serves, from the answers alone.
type walk struct {
	t       *testing.T
	db      *pgtest.DB
	rand    *rand.Rand
	trigger *trigger.Trigger
	keys    []rail.Key
	live    map[rail.Key]jobs.Claim
	zombies []jobs.Claim
	relays  []outbox.Holder
	shares  map[rail.UUID]outbox.Share
	taken   map[string]int
}

func newWalk(t *testing.T) *walk {
	seed := number("RAIL_TEST_SEED", uint64(time.Now().UnixNano()))
	t.Logf("seed: RAIL_TEST_SEED=%d", seed)
	w := &walk{
		t: t, db: pgtest.New(t), rand: rand.New(rand.NewPCG(seed, 1)),
		relays: []outbox.Holder{{ID: rail.NewUUID(), Name: "one"}, {ID: rail.NewUUID(), Name: "two"}}, shares: map[rail.UUID]outbox.Share{},
		live: map[rail.Key]jobs.Claim{}, taken: map[string]int{},
	}
	for range 3 {
		firm := rail.NewUUID()
		w.keys = append(w.keys, rail.Key{Firm: firm, Matter: rail.NewUUID()}, rail.Key{Firm: firm, Matter: rail.NewUUID()})
	}
	rules, err := trigger.NewRules([]trigger.Rule{
		{Name: "document.uploaded", Priority: rail.Standard, Quiet: time.Millisecond},
		{Name: "brief.requested", Priority: rail.Interactive},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.trigger = trigger.New(w.db.Pool, prometheus.NewRegistry(), trigger.Options{
		Rules: rules, MaxWait: time.Second, Batch: 10, Log: slog.New(slog.DiscardHandler),
	})
	return w
}

// walkStep is one legal step. It reports whether there was something to do.
type walkStep struct {
	name   string
	weight int
	do     func(w *walk, ctx context.Context, k rail.Key) (bool, error)
}

func walkSteps() []walkStep {
	return []walkStep{
		{"demand", 20, (*walk).demand},
		{"claim a batch", 14, (*walk).claim},
		{"claim by key", 8, (*walk).claimKey},
		{"land", 16, (*walk).land},
		{"fail", 8, (*walk).fail},
		{"release", 4, (*walk).release},
		{"renew", 5, (*walk).renew},
		{"sweep", 5, (*walk).sweep},
		{"come back as a zombie", 8, (*walk).zombie},
		{"append facts", 4, (*walk).facts},
		{"decide facts", 6, (*walk).decide},
		{"demand as an operator", 2, (*walk).operatorDemand},
		{"park", 3, (*walk).park},
		{"unpark", 6, (*walk).unpark},
		{"pause and resume", 1, (*walk).pause},
		{"redecide", 1, (*walk).redecide},
		{"lease buckets", 3, (*walk).lease},
		{"publish", 6, (*walk).publish},
		{"replay what is parked", 1, (*walk).replay},
		{"bump the epoch", 1, (*walk).bump},
		{"prune", 2, (*walk).prune},
		{"purge", 1, (*walk).purge},
	}
}

func (w *walk) step() {
	w.t.Helper()
	steps := walkSteps()
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	at := w.rand.IntN(total)
	for _, s := range steps {
		if at -= s.weight; at >= 0 {
			continue
		}
		did, err := s.do(w, w.t.Context(), w.keys[w.rand.IntN(len(w.keys))])
		if err != nil {
			w.t.Fatalf("%s was refused: %v", s.name, err)
		}
		if did {
			w.taken[s.name]++
		}
		return
	}
}

func (w *walk) demand(ctx context.Context, k rail.Key) (bool, error) {
	var wants []jobs.Want
	for range 1 + w.rand.IntN(3) {
		wants = append(wants, jobs.Want{
			Key: w.keys[w.rand.IntN(len(w.keys))], Count: 1 + w.rand.IntN(3),
			Priority: rail.Priority(w.rand.IntN(3)), Quiet: time.Duration(w.rand.IntN(3)) * time.Millisecond,
		})
	}
	wants = append(wants, jobs.Want{Key: k, Count: 1, Priority: rail.Standard})
	_, err := jobs.Demand(ctx, w.db.Pool, wants, 5*time.Millisecond)
	return true, err
}

func walkOptions() runs.ClaimOptions {
	return runs.ClaimOptions{Worker: "walker", Builder: "b", Lease: time.Minute}
}

func (w *walk) claim(ctx context.Context, _ rail.Key) (bool, error) {
	got, err := runs.Claim(ctx, w.db.Pool, 1+w.rand.IntN(3), walkOptions())
	for _, c := range got {
		w.won(c)
	}
	return len(got) > 0, err
}

func (w *walk) won(c runs.Claimed) {
	if held, ok := w.live[c.Key]; ok {
		w.t.Errorf("%s claimed as %s while %s is live", c.Key, c.Token, held.Token)
	}
	w.live[c.Key] = c.Claim
}

// claimKey lets a live claim's lease run out first, half of the time.
func (w *walk) claimKey(ctx context.Context, k rail.Key) (bool, error) {
	if _, ok := w.live[k]; ok && w.rand.IntN(2) == 0 {
		w.lapse(k)
	}
	got, err := runs.ClaimKey(ctx, w.db.Pool, k, rail.Interactive, walkOptions())
	for _, c := range got {
		w.won(c)
	}
	return len(got) > 0, err
}

// lapse ages the lease and turns the holder into a zombie.
func (w *walk) lapse(k rail.Key) {
	run(w.t, w.db, `UPDATE ops.matter_frame_jobs SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE run_id = $1`, w.live[k].Token.Run)
	w.lose(k)
}

func (w *walk) lose(k rail.Key) {
	if c, ok := w.live[k]; ok {
		w.zombies = append(w.zombies, c)
		delete(w.live, k)
	}
}

func (w *walk) land(ctx context.Context, k rail.Key) (bool, error) {
	c, ok := w.live[k]
	if !ok {
		return false, nil
	}
	m := matter{claim: runs.Claimed{Claim: c}}
	_, err := runs.Land(ctx, w.db.Pool, m.landing(w.t))
	delete(w.live, k)
	return true, err
}

func walkRetry() runs.Retry {
	return runs.Retry{MaxAttempts: 3, Backoff: time.Microsecond, BackoffMax: 2 * time.Microsecond}
}

func (w *walk) fail(ctx context.Context, k rail.Key) (bool, error) {
	c, ok := w.live[k]
	if !ok {
		return false, nil
	}
	delete(w.live, k)
	_, err := runs.Fail(ctx, w.db.Pool, c, runs.Failure{Kind: "other", Text: "no", Permanent: w.rand.IntN(4) == 0}, walkRetry())
	return true, err
}

func (w *walk) release(ctx context.Context, k rail.Key) (bool, error) {
	c, ok := w.live[k]
	if !ok {
		return false, nil
	}
	delete(w.live, k)
	_, err := runs.Release(ctx, w.db.Pool, c, runs.Failure{Kind: "interrupted"}, 0)
	return true, err
}

func (w *walk) renew(ctx context.Context, k rail.Key) (bool, error) {
	c, ok := w.live[k]
	if !ok {
		return false, nil
	}
	got, err := jobs.Renew(ctx, w.db.Pool, []jobs.Claim{c}, time.Minute)
	if err == nil && got[0] != jobs.Renewed {
		w.t.Errorf("a live claim is not renewed: %v", got[0])
	}
	return true, err
}

func (w *walk) sweep(ctx context.Context, k rail.Key) (bool, error) {
	if _, ok := w.live[k]; ok {
		w.lapse(k)
	}
	gone, err := sweep.Expire(ctx, w.db.Pool, 10, walkRetry())
	return len(gone) > 0, err
}

// zombie tries every write that a holder has, and wants each refused.
func (w *walk) zombie(ctx context.Context, _ rail.Key) (bool, error) {
	if len(w.zombies) == 0 {
		return false, nil
	}
	i := w.rand.IntN(len(w.zombies))
	c := w.zombies[i]
	w.zombies = append(w.zombies[:i], w.zombies[i+1:]...)
	if status := w.served(ctx, c); status {
		// its lease ran out, but nobody was told to build: it may still land
		m := matter{claim: runs.Claimed{Claim: c}}
		_, err := runs.Land(ctx, w.db.Pool, m.landing(w.t))
		return true, err
	}
	m := matter{claim: runs.Claimed{Claim: c}}
	_, landed := runs.Land(ctx, w.db.Pool, m.landing(w.t))
	_, failed := runs.Fail(ctx, w.db.Pool, c, runs.Failure{Kind: "other"}, walkRetry())
	_, released := runs.Release(ctx, w.db.Pool, c, runs.Failure{Kind: "interrupted"}, 0)
	for _, err := range []error{landed, failed, released} {
		if !errors.Is(err, runs.ErrFenced) {
			w.t.Errorf("zombie %s of %s: %v", c.Token, c.Key, err)
		}
	}
	return true, runs.NoteRefused(ctx, w.db.Pool, c.Token.Run, true)
}

func (w *walk) served(ctx context.Context, c jobs.Claim) (yes bool) {
	err := w.db.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM ops.matter_frame_jobs WHERE run_id = $1)`, c.Token.Run).Scan(&yes)
	if err != nil {
		w.t.Fatal(err)
	}
	return yes
}

func (w *walk) facts(ctx context.Context, k rail.Key) (bool, error) {
	_, err := w.db.Pool.Exec(ctx, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
		SELECT $1, $2, (ARRAY['document.uploaded', 'brief.requested', 'note.written'])[1 + n % 3] FROM generate_series(1, $3) n`,
		k.Firm, k.Matter, 1+w.rand.IntN(5))
	return true, err
}

func (w *walk) decide(ctx context.Context, _ rail.Key) (bool, error) {
	n, err := w.trigger.Once(ctx)
	return n > 0, err
}

func walkActor() jobs.Actor { return jobs.Actor{Name: "walker", Reason: "because"} }

func (w *walk) operatorDemand(ctx context.Context, k rail.Key) (bool, error) {
	n, err := walkActor().Demand(ctx, w.db.Pool, []rail.Key{k}, rail.Interactive)
	return n == 1, err
}

func (w *walk) park(ctx context.Context, k rail.Key) (bool, error) {
	was, err := walkActor().Park(ctx, w.db.Pool, k)
	if was != "" {
		w.lose(k)
	}
	return was != "", err
}

func (w *walk) unpark(ctx context.Context, k rail.Key) (bool, error) {
	return walkActor().Unpark(ctx, w.db.Pool, k)
}

func (w *walk) pause(ctx context.Context, k rail.Key) (bool, error) {
	if w.rand.IntN(3) == 0 {
		k.Firm = rail.UUID{}
	}
	if _, err := walkActor().Pause(ctx, w.db.Pool, k.Firm); err != nil {
		return false, err
	}
	if got, err := runs.ClaimKey(ctx, w.db.Pool, w.keys[0], rail.Standard, walkOptions()); err != nil || (k.Firm.IsZero() && len(got) > 0) {
		w.t.Errorf("claimed while all is paused: %v, %v", got, err)
	} else if len(got) > 0 {
		w.won(got[0])
	}
	return walkActor().Resume(ctx, w.db.Pool, k.Firm)
}

func (w *walk) redecide(ctx context.Context, k rail.Key) (bool, error) {
	n, err := outbox.Redecide(ctx, w.db.Pool, "ignored", time.Now().Add(-time.Hour), k.Firm, "walker", "because")
	return n > 0, err
}

// lease is one relay's turn; the other sleeps past its leases now and then.
func (w *walk) lease(ctx context.Context, _ rail.Key) (bool, error) {
	i := w.rand.IntN(2)
	h, other := w.relays[i], w.relays[1-i]
	switch w.rand.IntN(4) {
	case 0:
		run(w.t, w.db, `UPDATE ops.outbox_bucket_leases SET expires_at = clock_timestamp() - interval '1 second' WHERE holder = $1`, other.ID)
		run(w.t, w.db, `UPDATE ops.outbox_relays SET expires_at = clock_timestamp() - interval '1 second' WHERE relay = $1`, other.ID)
	case 1:
		return true, outbox.ReleaseBuckets(ctx, w.db.Pool, h)
	}
	s, err := outbox.LeaseBuckets(ctx, w.db.Pool, h, time.Minute, nil)
	w.shares[h.ID] = s
	return len(s.Leases) > 0, err
}

// publish sends facts on under leases that may be gone by now, and has some refused
// and some parked.
func (w *walk) publish(ctx context.Context, _ rail.Key) (bool, error) {
	h := w.relays[w.rand.IntN(2)]
	s := w.shares[h.ID]
	facts, _, err := outbox.Batch(ctx, w.db.Pool, h, outbox.Look{Leases: s.Leases, After: make([]int64, len(s.Leases)), Limit: 5})
	if err != nil || len(facts) == 0 {
		return false, err
	}
	if _, err := outbox.Mark(ctx, w.db.Pool, h, facts[1:]); err != nil {
		return false, err
	}
	_, _, err = outbox.Fail(ctx, w.db.Pool, h, []outbox.Refused{{Pending: facts[0], Code: "x", Park: w.rand.IntN(3) == 0}},
		outbox.Backoff{First: time.Microsecond, Max: time.Microsecond})
	return true, err
}

func (w *walk) replay(ctx context.Context, _ rail.Key) (bool, error) {
	n, err := outbox.Replay(ctx, w.db.Pool, nil, "walker", "because")
	return n > 0, err
}

func (w *walk) bump(ctx context.Context, _ rail.Key) (bool, error) {
	_, err := outbox.BumpEpoch(ctx, w.db.Pool, time.Now().Add(-10*time.Millisecond), "walker", "because")
	for _, k := range w.keys {
		w.lose(k)
	}
	return true, err
}

func (w *walk) prune(ctx context.Context, k rail.Key) (bool, error) {
	n, err := frames.Prune(ctx, w.db.Pool, []rail.Key{k}, 2)
	if err != nil {
		return false, err
	}
	for _, kind := range []string{"runs", "outbox", "receipts"} {
		more, err := pg.Prune(ctx, w.db.Pool, kind, time.Millisecond, 10)
		if err != nil {
			return false, err
		}
		n += more
	}
	return n > 0, nil
}

func (w *walk) purge(ctx context.Context, k rail.Key) (bool, error) {
	p, err := walkActor().Purge(ctx, w.db.Pool, k)
	w.lose(k)
	return p.Jobs > 0, err
}
