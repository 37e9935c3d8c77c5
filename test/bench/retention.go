package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// constant: tables whose sizes are told together, indexes included
var groups = []struct {
	name   string
	tables []string
}{
	{"outbox", []string{"domain_event_outbox"}},
	{"undecided, receipts and failures", []string{"outbox_undecided", "trigger_receipts", "outbox_failures"}},
	{"jobs, runs and frames", []string{"matter_frame_jobs", "matter_frame_runs", "matter_frames"}},
}

// sizes are megabytes, one a group.
type sizes []float64

// ofFacts is what facts take: all but jobs, runs and frames.
func (s sizes) ofFacts() float64 { return s[0] + s[1] }

func (l *load) sizes(ctx context.Context) (out sizes, err error) {
	for _, g := range groups {
		var mb float64
		err := l.pool.QueryRow(ctx, `SELECT sum(pg_total_relation_size('ops.' || t)) / 1e6 FROM unnest($1::text[]) t`, g.tables).Scan(&mb)
		if err != nil {
			return nil, fmt.Errorf("sizes: %w", err)
		}
		out = append(out, mb)
	}
	return out, nil
}

// How often autovacuum looks: as squeezed as the time that facts are kept.
const nap = 5 * time.Second

// retention has very many facts pass with retention and autovacuum on, and then
// more of them while somebody holds an old snapshot.
func (b *bench) retention(ctx context.Context) (err error) {
	const db = "retained"
	if err := b.database(ctx, db, small); err != nil {
		return err
	}
	settings := func(sql string) error { return b.do(ctx, "postgres", sql, `SELECT pg_reload_conf()`) }
	if err := settings(fmt.Sprintf(`ALTER SYSTEM SET autovacuum_naptime = '%d s'`, int(nap.Seconds()))); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, settings(`ALTER SYSTEM RESET autovacuum_naptime`), b.do(ctx, "postgres", `DROP DATABASE `+db+` WITH (FORCE)`))
	}()
	l, err := b.newLoad(ctx, db)
	if err != nil {
		return err
	}
	defer l.pool.Close()
	return l.run(ctx, func(ctx context.Context) error {
		written, err := b.perFact(ctx, l)
		if err != nil {
			return err
		}
		if err := b.bounded(ctx, l); err != nil {
			return err
		}
		return b.held(ctx, l, written)
	})
}

// old holds a snapshot open while do lasts.
func (l *load) old(ctx context.Context, do func() error) error {
	return pgx.BeginTxFunc(ctx, l.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM ops.ledger`); err != nil {
			return err
		}
		return do()
	})
}

// perFact is how many megabytes a fact writes: nothing has been cleared away yet,
// and nothing can be.
func (b *bench) perFact(ctx context.Context, l *load) (mb float64, err error) {
	before, err := l.sizes(ctx)
	if err != nil {
		return 0, err
	}
	facts := b.plan.facts / 50
	var after sizes
	err = l.old(ctx, func() (err error) {
		if err := l.produce(ctx, facts, 0); err != nil {
			return err
		}
		after, err = l.sizes(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	return (after.ofFacts() - before.ofFacts()) / float64(facts), nil
}

// bounded tells the sizes at each quarter of the run.
func (b *bench) bounded(ctx context.Context, l *load) error {
	at := make([][]string, len(groups))
	begun := time.Now()
	for range 4 {
		if err := l.produce(ctx, b.plan.facts/4, 0); err != nil {
			return err
		}
		s, err := l.sizes(ctx)
		if err != nil {
			return err
		}
		for i := range s {
			at[i] = append(at[i], fmt.Sprintf("%.0f", s[i]))
		}
		b.say(fmt.Sprintf("sizes %.0f MB", s))
	}
	for i, g := range groups {
		b.results.add(fmt.Sprintf("%d facts, retention on: %s, MB at 25, 50, 75 and 100 %%", b.plan.facts, g.name), strings.Join(at[i], ", "), "", "", "bounded")
	}
	b.results.add("the same: facts through relay, trigger and retention", rate(float64(b.plan.facts)/time.Since(begun).Seconds()), "", "", "")
	return nil
}

// phase is an evenly paced while, in which times are noted. It begins when what was
// produced before is through.
const pacedRate = 800 // facts a second

func (b *bench) paced(ctx context.Context, l *load) (map[string][]time.Duration, error) {
	if err := pause(ctx, 2*time.Second); err != nil {
		return nil, err
	}
	l.times()
	err := l.produce(ctx, int(pacedRate*b.plan.paced.Seconds())/loadBatch*loadBatch, pacedRate)
	return l.times(), err
}

// held compares what the rail takes, and how long, before, while and after somebody
// holds an old snapshot. Many facts pass under it before the times are taken.
func (b *bench) held(ctx context.Context, l *load, perFact float64) error {
	facts := b.plan.facts / 10
	pass := func() (map[string][]time.Duration, sizes, error) {
		if err := l.produce(ctx, facts, 0); err != nil {
			return nil, nil, err
		}
		times, err := b.paced(ctx, l)
		if err != nil {
			return nil, nil, err
		}
		s, err := l.sizes(ctx)
		b.say(fmt.Sprintf("sizes %.0f MB", s))
		return times, s, err
	}
	before, at, err := pass()
	if err != nil {
		return err
	}
	var while map[string][]time.Duration
	var held sizes
	if err := l.old(ctx, func() (err error) { while, held, err = pass(); return err }); err != nil {
		return err
	}
	if err := pause(ctx, 3*nap); err != nil { // autovacuum has been there
		return err
	}
	after, again, err := pass()
	if err != nil {
		return err
	}
	passed := float64(facts) + pacedRate*b.plan.paced.Seconds()
	b.addHeld(passed, perFact, at, held, again)
	for _, kind := range []string{toSent, reading, marking, taking, claim, toClaim} {
		b.addTimes(kind, slices.Concat(before[kind], after[kind]), while[kind])
	}
	return nil
}

// addHeld says plainly where a table took more than what was written.
func (b *bench) addHeld(facts, perFact float64, before, held, again sizes) {
	grown, written := held.ofFacts()-before.ofFacts(), facts*perFact
	verdict := "no more than written"
	if grown > written {
		verdict = "MORE THAN WRITTEN"
	}
	what := fmt.Sprintf("an old snapshot held while %.0f facts pass: ", facts)
	b.results.add(what+"growth of outbox, undecided, receipts and failures", fmt.Sprintf("%.1f MB of %.1f MB written: %s", grown, written, verdict), "", "", "what is written")
	for i, g := range groups {
		b.results.add(what+g.name+", MB before, then, and after as many facts again", fmt.Sprintf("%.1f, %.1f, %.1f", before[i], held[i], again[i]), "",
			fmt.Sprintf("x%.2f", again[i]/held[i]), "used again")
	}
}

func (b *bench) addTimes(kind string, without, with []time.Duration) {
	x, y := quantile(without, .5), quantile(with, .5)
	b.results.add("the same: "+kind+", median without and with it", fmt.Sprintf("%s → %s", ms(x), ms(y)), "", fmt.Sprintf("x%.2f", float64(y)/float64(x)), "at most 1.5")
}
