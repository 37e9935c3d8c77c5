package main

import (
	"context"
	"slices"

	"briefrail/internal/audit"
)

// sum counts everything once more at the end and asks for the ledger's invariants.
func (d *demo) sum(ctx context.Context) error {
	// the landing's own fact is decided a moment later
	err := d.watch(ctx, "every fact to be decided", func(ticket) bool {
		n, err := audit.OutboxCount(ctx, d.stage.pool, audit.FactFilter{Undecided: true})
		return err == nil && n == 0
	})
	if err != nil {
		return err
	}
	h, err := d.history(ctx)
	if err != nil {
		return err
	}
	d.screen.title("The sum of it")
	d.checkSum(h)
	return d.checkInvariants(ctx)
}

// checkInvariants asks for every invariant of the ledger, and ends the sum.
func (d *demo) checkInvariants(ctx context.Context) error {
	s := d.screen
	found, err := audit.Check(ctx, d.stage.pool, audit.CheckOptions{})
	if err != nil {
		return err
	}
	broken := 0
	for _, f := range found {
		if !f.Healthy() {
			broken++
			s.check(false, "%s: %d violations: %s %s", f.Invariant, f.Violations, f.Detail, f.Err)
		}
	}
	s.check(broken == 0, "%d of %d invariants of the ledger hold", len(found)-broken, len(found))
	s.line("")
	return nil
}

func (d *demo) checkSum(h history) {
	s := d.screen
	decided := 0
	for _, f := range h.facts {
		if f.Verdict != "" {
			decided++
		}
	}
	outcomes := map[string]int{}
	for _, r := range h.runs {
		outcomes[r.Outcome]++
	}
	rising := slices.IsSortedFunc(h.frames, func(a, b audit.FrameRow) int {
		if b.Generation > a.Generation {
			return -1
		}
		return 1
	})
	s.check(decided == len(h.facts), "%s, %s: nothing vanished", count(len(h.facts), "fact"), count(decided, "receipt"))
	s.check(outcomes["landed"] == len(h.frames) && outcomes["landed"]+outcomes["expired"] == len(h.runs),
		"%s: %d landed, %d expired; %s", count(len(h.runs), "build"), outcomes["landed"], outcomes["expired"], count(len(h.frames), "frame"))
	s.check(rising, "no frame is older than the one before it")
	s.check(d.seen.Status == "idle" && d.seen.Landed == d.seen.Requested, "the Brief is current, and nothing is owed")
}
