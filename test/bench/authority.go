package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// constant: what a claim and a landing ask of a fence
var ofTheFence = []*regexp.Regexp{
	regexp.MustCompile(`fence AS MATERIALIZED \(\s*SELECT ops\.buckets_elsewhere\(\) AS away\s*\), `),
	regexp.MustCompile(`\s+AND \w\.bucket <> ALL \(\(SELECT away FROM fence\)::smallint\[\]\)`),
	regexp.MustCompile(`, authority_epoch = greatest\(j\.authority_epoch, ops\.authority_epoch\(j\.bucket\)\)`),
	regexp.MustCompile(`(?s)admitted AS MATERIALIZED \(.*?\n\), `),
	regexp.MustCompile(`\(SELECT yes FROM admitted\) AND `),
}

var asksTheFence = regexp.MustCompile(`buckets_elsewhere|fence_check|ops\.authority_epoch|admitted|\bfence\b`)

// withoutFence is a script of claim and landing with all of that taken out.
func withoutFence(script string) (string, error) {
	for _, part := range ofTheFence {
		if !part.MatchString(script) {
			return "", fmt.Errorf("no %s in a claim and its landing", part)
		}
		script = part.ReplaceAllString(script, "")
	}
	if left := asksTheFence.FindString(script); left != "" {
		return "", fmt.Errorf("%s is left in a claim and its landing without a fence", left)
	}
	return script, nil
}

// unfenced compares claim and landing, no fence being configured, with the same
// statements that do not ask for one. Both by pgbench, in short turns.
func (b *bench) unfenced(ctx context.Context) error {
	script, define, err := cycleScript(ctx)
	if err != nil {
		return err
	}
	stripped, err := withoutFence(script)
	if err != nil {
		return err
	}
	turn := func(script string) func() (float64, error) {
		return func() (float64, error) {
			if err := b.fillQueue(ctx, small); err != nil {
				return 0, err
			}
			return b.landedByHand(ctx, define, script)
		}
	}
	p, err := turns(4*b.plan.rounds, turn(script), turn(stripped))
	if err != nil {
		return err
	}
	b.results.add("claim and land without any fence row; beside it the same statements that ask for none", rate(quantile(p.rail, .5)), rate(quantile(p.hand, .5)),
		spread(p.ratios), "at least 0.98")
	return nil
}

// spread is the median of the pairs and where half of them lie.
func spread(ratios []float64) string {
	r := slices.Clone(ratios)
	return fmt.Sprintf("%.3f (half of %d pairs: %.3f to %.3f)", quantile(r, .5), len(r), quantile(r, .25), quantile(r, .75))
}

// pauses is the bar: how long the writers of a bucket of a thousand matters wait.
func (b *bench) pauses(ctx context.Context) error {
	for _, c := range []struct {
		clients int
		work    time.Duration
		asked   string
	}{
		{8, 8 * time.Millisecond, "p50 25 ms, p99 100 ms"},
		{32, 8 * time.Millisecond, "p50 25 ms, p99 100 ms"},
		{8, 100 * time.Millisecond, "at most the grace and 25 ms: 125 ms"},
	} {
		b.say(fmt.Sprintf("authority: %d writers of %s", c.clients, c.work))
		m, err := b.newMove(ctx, "", c.clients, c.work)
		if err != nil {
			return err
		}
		var parts string
		err = m.run(ctx, func(ctx context.Context) (err error) {
			if err := m.crossings(ctx, b.plan.crossings); err != nil {
				return err
			}
			parts, err = m.parts(ctx)
			return err
		})
		if err != nil {
			return err
		}
		b.results.add(fmt.Sprintf("pause of a bucket of %d matters, from the first refused write to the first accepted one: %d writers of %s, %d crossings", bucketMatters, c.clients, c.work, len(m.pauses)),
			m.told(), "", "", c.asked)
		b.results.add("the same, inside the database, p50: waiting for the admitted, the seal, the verification, the advance", parts, "", "", "")
	}
	return nil
}

// elsewhere is what writers of another bucket notice of crossings: windows with and
// without them take turns.
func (b *bench) elsewhere(ctx context.Context) error {
	b.say("authority: another bucket")
	m, err := b.newMove(ctx, "", 8, 8*time.Millisecond)
	if err != nil {
		return err
	}
	m.watchOthers = true
	window := func(do func() error) func() (float64, error) {
		return func() (float64, error) {
			m.others.take()
			err := do()
			return quantile(m.others.take(), .5), err
		}
	}
	var p pair
	err = m.run(ctx, func(ctx context.Context) (err error) {
		p, err = turns(3*b.plan.rounds,
			window(func() error { return m.crossFor(ctx, b.plan.turn) }),
			window(func() error { return pause(ctx, b.plan.turn) }))
		return err
	})
	if err != nil {
		return err
	}
	b.results.add(fmt.Sprintf("a write in another bucket, p50, while authority moves back and forth (%d crossings); beside it the same while it stays", len(m.pauses)),
		fmt.Sprintf("%.2f ms", quantile(p.rail, .5)), fmt.Sprintf("%.2f ms", quantile(p.hand, .5)), spread(p.ratios), "within 5 %")
	b.results.add("writes refused in that bucket", fmt.Sprint(m.othersRefused.Load()), "", "", "0")
	return nil
}

// rivals shows the designs that were turned down on the same writers.
func (b *bench) rivals(ctx context.Context) error {
	n := b.plan.crossings / 2
	for _, d := range designs() {
		b.say("authority: " + d.name)
		m, err := b.newMove(ctx, d.sql, 8, 8*time.Millisecond)
		if err != nil {
			return err
		}
		var wal float64
		err = m.run(ctx, func(ctx context.Context) (err error) {
			if wal, err = m.walPerWrite(ctx, b.plan.turn); err != nil {
				return err
			}
			m.slow.Store(true) // now and then a writer takes longer than the grace
			return m.crossings(ctx, n)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		b.results.add("moving authority by "+d.name+": pause; writes that came late; closings that never began; WAL a write",
			fmt.Sprintf("%s; %d late; %d of %d starved; %.0f B", m.told(), m.late, m.starved, n, wal), "", "", d.asked)
	}
	return nil
}
