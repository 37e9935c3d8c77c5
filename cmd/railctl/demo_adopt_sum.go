package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/audit"
	"briefrail/internal/authority"
	"briefrail/internal/brief"
	"briefrail/internal/frames"
	"briefrail/internal/rail"
)

// total is what must hold of the whole story.
func (d *adopting) total(ctx context.Context) error {
	d.people.still()
	if err := d.people.failed(); err != nil {
		return err
	}
	err := d.until(ctx, "the last demand to be served", func(ctx context.Context) (bool, error) {
		st, err := audit.ReadStatus(ctx, d.stage.pool)
		n, counted := audit.OutboxCount(ctx, d.stage.pool, audit.FactFilter{Undecided: true})
		return n == 0 && st.Jobs.Queued+st.Jobs.Running == 0, errors.Join(err, counted)
	})
	if err != nil {
		return err
	}
	d.screen.title("The sum of it")
	if err := d.checkIntents(ctx); err != nil {
		return err
	}
	if err := d.checkRecord(ctx); err != nil {
		return err
	}
	d.checkPauses()
	return d.checkInvariants(ctx)
}

// checkIntents looks every intent up, at both sides.
func (d *adopting) checkIntents(ctx context.Context) error {
	theirs := map[string]bool{}
	rows, err := d.stage.pool.Query(ctx, `SELECT intent_id::text FROM legacy.requests`)
	if err != nil {
		return err
	}
	var id string
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { theirs[id] = true; return nil }); err != nil {
		return err
	}
	asked, one, old := d.people.snapshot(), 0, 0
	for _, a := range asked {
		answer, err := authority.Find(ctx, d.stage.pool, a.id)
		if err != nil {
			return err
		}
		accepted := answer.Verdict == authority.Accepted && len(answer.ResultDigest) == 32
		if accepted && theirs[a.id.String()] == (answer.Writer == "legacy") {
			one++
		}
		if answer.Writer == "legacy" {
			old++
		}
	}
	d.screen.check(one == len(asked) && len(asked) > 0, "%s, each with exactly one result: %d of the old worker, %d of the rail", count(len(asked), "intent"), old, len(asked)-old)
	d.screen.check(len(theirs) == old, "every receipt of the old worker is known at the rail")
	return nil
}

// checkRecord compares what is on record with what the Briefs were made from.
func (d *adopting) checkRecord(ctx context.Context) error {
	served, docs := 0, 0
	for _, k := range d.people.keys {
		stored, made, err := d.madeFrom(ctx, k)
		if err != nil {
			return err
		}
		docs += stored
		if stored == made {
			served++
		}
	}
	d.screen.check(served == len(d.people.keys), "%s of %s: each one in the current Brief of its matter, nothing was lost", count(docs, "document"), count(served, "matter"))
	return nil
}

func (d *adopting) checkPauses() {
	s := d.screen
	waits, strangers := d.people.strangers(d.moved)
	s.check(strangers == 0, "%s told somebody to come back in a moment, each of the bucket that was crossing: no other bucket ever stopped", count(waits, "answer"))
	longest := time.Duration(0)
	for _, a := range d.people.snapshot() {
		longest = max(longest, a.waited)
	}
	pauses := make([]time.Duration, 0, len(d.moved))
	for _, c := range d.moved {
		pauses = append(pauses, *c.change.MeasuredPause)
	}
	middle, worst := spread2(pauses)
	s.tell("%s: half of the pauses were below %s, all below %s. The longest that a person waited for one was %s.", fmt.Sprintf("%d crossings", len(d.moved)), pauseText(&middle), pauseText(&worst), pauseText(&longest))
}

// madeFrom counts a matter's live documents, and those that its current Brief names.
func (d *adopting) madeFrom(ctx context.Context, k rail.Key) (stored, made int, err error) {
	err = d.stage.pool.QueryRow(ctx, `SELECT count(*) FROM record.documents WHERE firm_id = $1 AND matter_id = $2 AND replaced_at IS NULL AND deleted_at IS NULL`, k.Firm, k.Matter).Scan(&stored)
	if err != nil {
		return 0, 0, err
	}
	current, ok, err := frames.Current(ctx, d.stage.pool, k)
	if err != nil || !ok {
		return stored, 0, err
	}
	var f brief.Frame
	if err := json.Unmarshal(current.JSON, &f); err != nil {
		return stored, 0, fmt.Errorf("read the frame of %s: %w", k, err)
	}
	return stored, len(f.BuiltFrom), nil
}

// spread2 is the middle of some durations, and the longest.
func spread2(all []time.Duration) (middle, longest time.Duration) {
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1]
}
