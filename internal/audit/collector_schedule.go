package audit

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/pg"
)

// window is how far back the frequent checks look: many turns, so that a
// violation stays in sight for as long as an alarm and a person need.
const window = time.Hour

// schedule is what Run found last. Recent and whole are kept apart: what the whole
// check found stays red until the next whole check says otherwise.
type schedule struct {
	findings  sync.Mutex
	recent    map[string]Finding
	recentAt  time.Time
	whole     map[string]Finding
	refusals  []refusal // what the sequence said at each turn of the last hour
	nextWhole time.Time
}

// refusal is the count of refused changes of an ended outcome at one instant.
type refusal struct {
	at   time.Time
	ever int64
}

// Run checks the invariants every CheckEvery, and whole every WholeEvery, until ctx
// ends; it returns ctx's error. Without it the invariants' gauges are absent.
func (c *Collector) Run(ctx context.Context) error {
	c.findings.Lock()
	// The first whole check is the turn after the first, as some invariants have no
	// gauge before it.
	c.nextWhole = time.Now().Add(c.opts.CheckEvery / 2)
	c.findings.Unlock()
	// The pause before the second turn is a random part of the interval, half of it at
	// least: a fleet that starts together does not scan the tables together.
	for pause := c.opts.CheckEvery/2 + rand.N(c.opts.CheckEvery/2+1); ; pause = c.opts.CheckEvery {
		c.Pass(ctx)
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		case <-wait.C:
		}
	}
}

// Pass is one turn of Run: the recent check, and the whole one when it is due.
func (c *Collector) Pass(ctx context.Context) {
	c.check(ctx, c.recentOptions(ctx), c.keepRecent)
	c.findings.Lock()
	due := !time.Now().Before(c.nextWhole)
	c.findings.Unlock()
	if due && ctx.Err() == nil {
		o := c.opts.Check
		o.Window, o.Timeout = 0, max(o.Timeout, time.Minute)
		c.check(ctx, o, c.keepWhole)
	}
}

func (c *Collector) check(ctx context.Context, o CheckOptions, keep func(map[string]Finding)) {
	findings, err := Check(ctx, c.db, o)
	if ctx.Err() != nil {
		return
	}
	byName := map[string]Finding{}
	for _, f := range findings {
		byName[f.Invariant] = f
		c.tell(ctx, f)
	}
	if err != nil {
		c.opts.Log.WarnContext(ctx, "invariants cannot be checked", slog.String("err", pg.Text(err, 300)), slog.String("sqlstate", pg.SQLState(err)))
		return // the last answers stay until they are too old
	}
	keep(byName)
}

// tell logs a violation or a failure; the alarm is the gauge's.
func (c *Collector) tell(ctx context.Context, f Finding) {
	switch {
	case f.Err != "":
		c.opts.Log.WarnContext(ctx, "invariant cannot be checked", slog.String("invariant", f.Invariant), slog.String("err", f.Err))
	case f.Violations > 0:
		c.opts.Log.ErrorContext(ctx, "invariant violated", slog.String("invariant", f.Invariant),
			slog.Int64("violations", f.Violations), slog.Any("examples", f.Examples), slog.String("detail", f.Detail))
	}
}

// recentOptions has the refusals that were known an hour ago, or at the start.
func (c *Collector) recentOptions(ctx context.Context) CheckOptions {
	o := c.opts.Check
	o.Window = window
	var ever int64
	if err := c.db.QueryRow(ctx, refusalsSQL).Scan(&ever); err != nil {
		return o // the check itself will say that the database is away
	}
	c.findings.Lock()
	defer c.findings.Unlock()
	now := time.Now()
	c.refusals = append(c.refusals, refusal{now, ever})
	for len(c.refusals) > 1 && now.Sub(c.refusals[0].at) > window {
		c.refusals = c.refusals[1:]
	}
	o.Refusals = &c.refusals[0].ever
	return o
}

const refusalsSQL = `SELECT last_value FROM ops.run_outcome_refusals`

func (c *Collector) keepRecent(found map[string]Finding) {
	c.findings.Lock()
	defer c.findings.Unlock()
	c.recent, c.recentAt = found, time.Now()
}

// keepWhole sets the next whole check, which is soon where something was found or
// could not be seen: a repair must not stay red for an hour.
func (c *Collector) keepWhole(found map[string]Finding) {
	c.findings.Lock()
	defer c.findings.Unlock()
	c.whole, c.nextWhole = found, time.Now().Add(c.opts.WholeEvery+rand.N(c.opts.WholeEvery/10+1))
	for _, f := range found {
		if !f.Healthy() {
			c.nextWhole = time.Now().Add(min(c.opts.WholeEvery, 5*c.opts.CheckEvery))
		}
	}
}

// emitInvariants leaves out what was not checked yet, and makes invalid what could
// not be checked or was not for long: a stale zero would look healthy.
func (c *Collector) emitInvariants(ch chan<- prometheus.Metric) {
	c.findings.Lock()
	defer c.findings.Unlock()
	if c.recentAt.IsZero() {
		return
	}
	stale := time.Since(c.recentAt) > 3*c.opts.CheckEvery+window/30
	for _, name := range Invariants() {
		n, known, err := c.violations(name)
		switch {
		case stale:
			ch <- prometheus.NewInvalidMetric(c.descs.invariant, errNotChecked)
			return
		case err != nil:
			ch <- prometheus.NewInvalidMetric(c.descs.invariant, err)
		case known:
			ch <- prometheus.MustNewConstMetric(c.descs.invariant, prometheus.GaugeValue, float64(n), name)
		}
	}
}

// violations is the worse of what the recent and the whole check said.
func (c *Collector) violations(name string) (n int64, known bool, err error) {
	for _, found := range []map[string]Finding{c.recent, c.whole} {
		f, ok := found[name]
		if !ok {
			continue
		}
		if f.Err != "" {
			return 0, true, errors.New(name + ": " + f.Err)
		}
		n, known = max(n, f.Violations), true
	}
	return n, known, nil
}
