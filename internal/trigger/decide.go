package trigger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// sweep decides one batch from number seq on in one transaction, and returns what
// it took. Nothing is decided unless all of it is: a crash before the commit
// leaves every fact undecided, one after it leaves none. A row that somebody holds
// is waited for only shortly: all that were demanded before it are locked meanwhile,
// and all other facts of the batch wait with it.
func (t *Trigger) sweep(ctx context.Context, seq int64, limit int) (taken []outbox.Fact, err error) {
	var all []judged
	since := time.Now()
	err = pg.InTx(ctx, t.pool, func(tx pgx.Tx) error {
		if err := settings(ctx, tx, limit); err != nil {
			return err
		}
		begun := time.Now()
		if taken, err = outbox.Take(ctx, tx, t.opts.Grace, seq, limit); err != nil {
			return err
		}
		if t.reach.read(seq, time.Since(begun)); len(taken) == 0 {
			return nil
		}
		all, err = t.decide(ctx, tx, taken)
		return err
	})
	if err != nil {
		return taken, err
	}
	t.traced(ctx, "decide facts", rail.Inside, since, all)
	t.metrics.decided(all)
	t.metrics.swept.Add(float64(len(all)))
	return taken, nil
}

// settings of one decision. All that it reads has its index, and what cannot be cleared
// away lies outside of the part that is wanted; to statistics the table is only small.
func settings(ctx context.Context, tx pgx.Tx, limit int) error {
	wait := "1s"
	if limit == 1 {
		wait = "250ms"
	}
	if _, err := tx.Exec(ctx, `SELECT set_config('lock_timeout', $1, true), set_config('enable_seqscan', 'off', true)`, wait); err != nil {
		return fmt.Errorf("trigger.settings: %w", err)
	}
	return nil
}

func (t *Trigger) decide(ctx context.Context, tx pgx.Tx, facts []outbox.Fact) ([]judged, error) {
	all := make([]judged, len(facts))
	for i, f := range facts {
		all[i].fact = f
		all[i].verdict, all[i].rule = t.opts.Rules.Judge(f)
	}
	if err := t.closeGate(ctx, tx, all); err != nil {
		return nil, err
	}
	if err := t.demand(ctx, tx, all); err != nil {
		return nil, err
	}
	if err := writeReceipts(ctx, tx, all); err != nil {
		return nil, err
	}
	return all, outbox.Settle(ctx, tx, facts)
}

// demand bumps each matter once for all its facts of the batch.
func (t *Trigger) demand(ctx context.Context, tx pgx.Tx, all []judged) error {
	var wants []jobs.Want
	for _, j := range all {
		if j.verdict == Demanded {
			wants = append(wants, jobs.Want{Key: j.fact.Key(), Count: 1, Priority: j.rule.Priority, Quiet: j.rule.Quiet})
		}
	}
	done, err := jobs.Demand(ctx, tx, wants, t.opts.MaxWait)
	if err != nil {
		return err
	}
	requested := make(map[rail.Key]int64, len(done))
	for _, d := range done {
		requested[d.Key] = d.Requested
	}
	for i := range all {
		if all[i].verdict == Demanded {
			all[i].requested = requested[all[i].fact.Key()]
		}
	}
	return nil
}

// closeGate asks the user's own predicate, where one is configured, which of the
// demanded matters are open.
func (t *Trigger) closeGate(ctx context.Context, tx pgx.Tx, all []judged) error {
	if t.opts.OpenMatterSQL == "" {
		return nil
	}
	var firms, matters []rail.UUID
	for _, j := range all {
		if j.verdict == Demanded && j.fact.Firm != rail.Canary().Firm {
			firms, matters = append(firms, j.fact.Firm), append(matters, j.fact.Matter)
		}
	}
	if len(firms) == 0 {
		return nil
	}
	open, err := openMatters(ctx, tx, t.opts.OpenMatterSQL, firms, matters)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].verdict == Demanded && all[i].fact.Firm != rail.Canary().Firm && !open[all[i].fact.Key()] {
			all[i].verdict = GatedMatterClosed
		}
	}
	return nil
}

// openMatters runs the configured predicate over columns m.firm_id and
// m.matter_id. It is the operator's own SQL from the configuration file.
func openMatters(ctx context.Context, tx pgx.Tx, predicate string, firms, matters []rail.UUID) (map[rail.Key]bool, error) {
	rows, err := tx.Query(ctx, `SELECT DISTINCT m.firm_id, m.matter_id FROM unnest($1::uuid[], $2::uuid[]) AS m (firm_id, matter_id)
 WHERE (`+predicate+`)`, firms, matters)
	if err != nil {
		return nil, fmt.Errorf("trigger.open_matter_sql: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[rail.Key])
	if err != nil {
		return nil, fmt.Errorf("trigger.open_matter_sql: %w", err)
	}
	open := make(map[rail.Key]bool, len(keys))
	for _, k := range keys {
		open[k] = true
	}
	return open, nil
}

// Probe runs the configured predicate over no matter at all: a mistake in it is
// told at the start, and not by facts that are never decided.
func (t *Trigger) Probe(ctx context.Context) error {
	if t.opts.OpenMatterSQL == "" {
		return nil
	}
	return pg.InTx(ctx, t.pool, func(tx pgx.Tx) error {
		_, err := openMatters(ctx, tx, t.opts.OpenMatterSQL, []rail.UUID{}, []rail.UUID{})
		return err
	})
}
