package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"briefrail/internal/audit"
	"briefrail/internal/rail"
)

const fenceCounter = "rail_fence_rejections_total"

// overtaken is what became of one claim and of the one that took its place.
type overtaken struct {
	zombie   *process
	rejected float64      // of the zombie's fence counter before
	old, new audit.RunRow // the claim that was lost, and the one that landed
}

// zombie is scene 3: who lost the job cannot write any more, and is told so by the
// row.
func (d *demo) zombie(ctx context.Context) error {
	s := d.screen
	s.title("3 of %d  The zombie: a worker that hangs and comes back", d.parts())
	s.tell("Whether a silent worker is dead or slow cannot be seen from outside, so nothing here asks. " +
		"Each claim gets a number that was never given before, its token, and the database lets a frame in only under " +
		"the token that is being served.")
	o, err := d.freeze(ctx)
	if err != nil {
		return err
	}
	if err := d.overtake(ctx, o); err != nil {
		return err
	}
	if err := d.wake(ctx, o); err != nil {
		return err
	}
	return d.checkZombie(ctx, o)
}

// freeze stops the worker that claimed, in the middle of its build and soon after a
// renewal, so that it does not lie in the middle of one.
func (d *demo) freeze(ctx context.Context) (*overtaken, error) {
	o, err := d.claimed(ctx)
	if err != nil {
		return nil, err
	}
	err = d.watch(ctx, "a good moment", func(t ticket) bool {
		quiet := t.left < demoLease-100*time.Millisecond && t.left > demoLease-demoLease/4
		return t.RunID != o.old.RunID || (quiet && time.Since(*t.ClaimedAt) > demoBuild/6)
	})
	if err != nil {
		return nil, err
	}
	if d.seen.RunID != o.old.RunID {
		return nil, errors.New("the build ended before its worker could be stopped: this machine is very busy")
	}
	if err := o.zombie.freeze(); err != nil {
		return nil, err
	}
	d.screen.act("worker %s freezes in mid-build (kill -STOP %d); it holds token %d", o.zombie.name, o.zombie.pid(), o.old.Generation)
	return o, nil
}

// claimed asks for one more build and finds out which worker has it.
func (d *demo) claimed(ctx context.Context) (o *overtaken, err error) {
	if err := d.watchFor(ctx, 0); err != nil { // the row before anything happens
		return nil, err
	}
	d.screen.act("somebody asks again")
	if err := d.ask(ctx); err != nil {
		return nil, err
	}
	if err := d.watchClaim(ctx); err != nil {
		return nil, err
	}
	o = &overtaken{}
	if o.old, err = audit.ReadRun(ctx, d.stage.pool, d.seen.RunID); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(d.stage.workers, func(p *process) bool { return p.name == o.old.Worker })
	if i < 0 {
		return nil, fmt.Errorf("run %s is of a worker %q that the demo did not start", o.old.RunID, o.old.Worker)
	}
	o.zombie = d.stage.workers[i]
	o.rejected, err = o.zombie.counter(ctx, fenceCounter)
	return o, err
}

// overtake watches the lease run out and another worker land.
func (d *demo) overtake(ctx context.Context, o *overtaken) error {
	s := d.screen
	if err := d.watch(ctx, "the lease to run out", func(t ticket) bool { return t.RunID != o.old.RunID }); err != nil {
		return err
	}
	s.note("worker %s was silent for a whole lease: another one ended its claim", o.old.Worker)
	if err := d.watchClaim(ctx); err != nil {
		return err
	}
	s.note("worker %s builds with the next token, %d", d.seen.worker, d.seen.Claimed)
	id := d.seen.RunID
	if err := d.watchIdle(ctx); err != nil {
		return err
	}
	var err error
	o.new, err = audit.ReadRun(ctx, d.stage.pool, id)
	return err
}

// wake lets the zombie go on and waits until the fence has refused it.
func (d *demo) wake(ctx context.Context, o *overtaken) error {
	d.screen.act("worker %s wakes up (kill -CONT %d) with its old answer, and writes", o.zombie.name, o.zombie.pid())
	if err := o.zombie.thaw(); err != nil {
		return err
	}
	var failed error
	err := d.watch(ctx, "the late write", func(ticket) bool {
		o.old, failed = audit.ReadRun(ctx, d.stage.pool, o.old.RunID)
		return failed != nil || o.old.LateWriteAt != nil
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("the zombie's write left no trace: %w", err)
	}
	return nil
}

func (d *demo) checkZombie(ctx context.Context, o *overtaken) error {
	s := d.screen
	rejected, err := o.zombie.counter(ctx, fenceCounter)
	if err != nil {
		return err
	}
	h, err := d.history(ctx)
	if err != nil {
		return err
	}
	d.showRuns(o)
	s.check(o.old.Outcome == "expired", "worker %s's build ended as expired, and stays so", o.old.Worker)
	s.check(o.old.LateWriteAt != nil && !o.old.LateWriteAt.Before(*o.new.FinishedAt),
		"its late write is noted on its own run, after the other had landed")
	s.check(o.new.Outcome == "landed" && o.new.Generation > o.old.Generation && o.new.RetryOf == o.old.RunID,
		"worker %s landed with the next token: %d after %d", o.new.Worker, o.new.Generation, o.old.Generation)
	s.check(d.seen.Landed == o.new.Generation && !hasFrame(h, o.old.RunID), "nothing of the late frame was written: the Brief is that of token %d", o.new.Generation)
	s.check(rejected > o.rejected, "worker %s counted it itself: %s went from %.0f to %.0f", o.zombie.name, fenceCounter, o.rejected, rejected)
	return nil
}

// showRuns prints the two run rows side by side.
func (d *demo) showRuns(o *overtaken) {
	s := d.screen
	s.line("")
	s.line("  %s", s.paint(styleDim, "run       worker  token  attempt  outcome   finished    late write"))
	for _, r := range []audit.RunRow{o.old, o.new} {
		late := "-"
		if r.LateWriteAt != nil {
			late = s.paint(styleBad, "refused "+r.LateWriteAt.Local().Format("15:04:05.0"))
		}
		s.line("  %-8s  %-6s  %5d  %7d  %-8s  %-10s  %s", short(r.RunID), r.Worker, r.Generation, r.Attempt, r.Outcome,
			r.FinishedAt.Local().Format("15:04:05.0"), late)
	}
	s.line("")
}

func hasFrame(h history, run rail.UUID) bool {
	for _, f := range h.frames {
		if f.RunID == run {
			return true
		}
	}
	return false
}
