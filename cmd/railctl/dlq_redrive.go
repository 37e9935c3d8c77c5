package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/jobs"
	"briefrail/internal/nudge"
)

const redriveHelp = `Send all dead nudges back to the queue, after the cause was mended, and wait until SQS
has moved them. What is still malformed or unknown dies again; what was decided before
is deleted. When --timeout runs out, or this program is stopped, the move goes on.

The audit row is written first: a move whose outcome is not known is in the log as well,
and one that SQS refused has a second row, dlq.redrive_failed.`

// redriven is how a redrive ended, or in a dry run what it would find.
type redriven struct {
	Queue   string `json:"queue"`   // URL of the dead-letter queue
	Letters int    `json:"letters"` // there before, approximately
	InHand  int    `json:"in_hand"` // of these, looked at by somebody just now: they stay
	Moved   int64  `json:"moved"`
	Status  string `json:"status"` // AWS's word
	DryRun  bool   `json:"dry_run"`
}

// redriveFlags are what a redrive may be told.
type redriveFlags struct {
	*change
	perSecond int
	timeout   time.Duration
}

func (a *app) dlqRedrive() *cobra.Command {
	var f redriveFlags
	cmd := &cobra.Command{Use: "redrive", Short: "Send all dead nudges back to the queue", Long: redriveHelp, Args: cobra.NoArgs}
	cmd.Flags().IntVar(&f.perSecond, "per-second", 0, "at most so many a second, up to 500 (0: as fast as SQS likes)")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "longest wait for the end of the move")
	f.change = a.changeFlags(cmd)
	cmd.RunE = a.changing(f.change, func(ctx context.Context, s *session, act jobs.Actor, _ []string) error {
		if f.perSecond < 0 || f.perSecond > 500 {
			return fail(exitUsage, "--per-second %d: want 0 to 500", f.perSecond)
		}
		d, err := s.deadLetters(ctx)
		if err != nil {
			return err
		}
		return s.redrive(ctx, d, f, act)
	})
	return cmd
}

func (s *session) redrive(ctx context.Context, d *nudge.DeadLetters, f redriveFlags, act jobs.Actor) error {
	depth, err := d.Depth(ctx)
	if err != nil {
		return err
	}
	out := redriven{Queue: d.URL(), Letters: depth.Visible + depth.InFlight, InHand: depth.InFlight, DryRun: f.dryRun}
	if err := s.confirm(f.change, true, "send about %d letter(s) back from %s", out.Letters, out.Queue); err != nil {
		return err
	}
	if f.dryRun {
		return s.showRedriven(out)
	}
	before, err := latest(ctx, d)
	if err != nil {
		return err
	}
	if err := s.startRedrive(ctx, d, f, act, out); err != nil {
		return err
	}
	err = s.awaitRedrive(ctx, d, before.Started, f.timeout, &out)
	if shown := s.showRedriven(out); err == nil {
		err = shown
	}
	return err
}

// startRedrive notes who asked before SQS is asked: there is no transaction over both.
func (s *session) startRedrive(ctx context.Context, d *nudge.DeadLetters, f redriveFlags, act jobs.Actor, out redriven) error {
	details := map[string]any{"letters": out.Letters, "per_second": f.perSecond}
	if err := act.Note(ctx, s.pool, "dlq.redrive", out.Queue, details); err != nil {
		return err
	}
	_, err := d.Redrive(ctx, f.perSecond)
	if err == nil {
		return nil
	}
	_, code := nudge.ClassOf(err)
	noted := act.Note(ctx, s.pool, "dlq.redrive_failed", out.Queue, map[string]any{"code": code})
	if noted != nil {
		s.say("railctl: the audit log says that it was asked for, not that it failed: %v", noted)
	}
	return fmt.Errorf("the redrive of %s was not started, as far as is known: %w", out.Queue, err)
}

// latest returns the latest move, a zero one where there was none.
func latest(ctx context.Context, d *nudge.DeadLetters) (nudge.Move, error) {
	moves, err := d.Moves(ctx)
	if err != nil || len(moves) == 0 {
		return nudge.Move{}, err
	}
	return moves[0], nil
}

// awaitRedrive looks at the latest move until it has ended. The list may be late, so
// a move that started no later than before is not ours.
func (s *session) awaitRedrive(ctx context.Context, d *nudge.DeadLetters, before time.Time, timeout time.Duration, out *redriven) error {
	w := s.working("redriving")
	defer w.end()
	end := time.Now().Add(timeout)
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		m, err := latest(ctx, d)
		if err != nil {
			return fmt.Errorf("the move goes on, how far is not known: %w", err)
		}
		if m.Started.After(before) {
			out.Moved, out.Status = m.Moved, m.Status
			switch m.Status {
			case "COMPLETED":
				return nil
			case "FAILED", "CANCELLED":
				return fail(exitError, "the move ended as %s: %s", m.Status, orDash(m.Failure))
			}
			w.say("%d of about %d moved", m.Moved, m.ToMove)
		}
		if time.Now().After(end) {
			return fail(exitTimeout, "not moved within %s: the move goes on", span(timeout))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(pause, max(0, time.Until(end)))):
		}
	}
}

func (s *session) showRedriven(out redriven) error {
	return s.show(view{kind: "dlq.redrive", data: out, names: []string{out.Queue}, table: func(p *page) {
		if out.DryRun {
			p.line("dry run: would send about %d letter(s) back from %s", out.Letters-out.InHand, out.Queue)
		} else {
			p.line("%d letter(s) sent back from %s: %s", out.Moved, out.Queue, orDash(out.Status))
		}
		if out.InHand > 0 {
			p.line("%d letter(s) were being looked at, and stay: redrive again in 15 s", out.InHand)
		}
	}})
}
