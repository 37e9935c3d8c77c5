package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"briefrail/internal/authority"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
)

// moveFlags are what a plan is made of.
type moveFlags struct {
	authority.Move
	id        string
	relations map[string]string
}

func (m *moveFlags) flags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&m.id, "change", "", "`UUID` to give the change; the same again returns what was planned (default a new one)")
	fs.DurationVar(&m.Grace, "grace", 0, "longest wait for writers that were admitted (default 100ms)")
	fs.DurationVar(&m.Deadline, "deadline", 0, "when a closing is taken back by itself (default 2s)")
	fs.DurationVar(&m.Budget, "budget", 0, "longest pause that may be predicted (default 1s)")
}

func (m *moveFlags) read() (err error) {
	m.Change, m.Relations = rail.NewUUID(), m.relations
	if m.id != "" {
		m.Change, err = changeID(m.id)
	}
	return err
}

const planHelp = `Plan the move of a scope to another writer: relations to other scopes, the fence of
every table, the way back (played in a fixture), and the pause, predicted from what its
statements take now. What cannot move is refused with the reason. --relation tells what
holds of a foreign key that is cut: NAME=must_move_together (the default), validated or
projection.`

func (a *app) authorityPlan() *cobra.Command {
	var m moveFlags
	cmd := &cobra.Command{Use: "plan SCOPE", Short: "Plan the move of a scope", Long: planHelp, Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&m.To, "to", "rail", "`name` of the new writer")
	cmd.Flags().StringVar(&m.Cohort, "cohort", "", "`name` of the scopes that cross as one (default first)")
	cmd.Flags().DurationVar(&m.Window, "window", 0, "how long a way back stays open (default 336h)")
	cmd.Flags().StringToStringVar(&m.relations, "relation", nil, "`NAME=CLASS` of a relation that is cut; may be given again")
	m.flags(cmd)
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) (err error) {
		if m.Scope, err = fenceScope(args[0]); err != nil {
			return err
		}
		if err := m.read(); err != nil {
			return err
		}
		return s.step(ctx, c, act, "authority.plan", func(ctl authority.Controller) (authority.Change, error) { return ctl.Plan(ctx, m.Move) })
	})
	return cmd
}

// stepped is a change after a step.
type stepped struct {
	authority.Change
	DryRun bool `json:"dry_run"`
}

// step takes one step of a change and tells where that leaves it.
func (s *session) step(ctx context.Context, c *change, act jobs.Actor, kind string, do func(authority.Controller) (authority.Change, error)) error {
	out := stepped{DryRun: c.dryRun}
	err := s.govern(ctx, c, act, func(ctl authority.Controller) (err error) {
		out.Change, err = do(ctl)
		return err
	})
	if err != nil {
		return err
	}
	return s.showStep(kind, out)
}

func (s *session) showStep(kind string, out stepped) error {
	return s.show(view{kind: kind, data: out, names: []string{out.ID.String()}, table: func(p *page) {
		if out.DryRun {
			p.line("dry run: nothing was changed; it would be")
		}
		changeTable(p, out.Change)
	}})
}

// stepVerbs are the steps that need nothing but the change.
func (a *app) stepVerbs() []*cobra.Command {
	return []*cobra.Command{
		a.stepVerb("close", "Let nobody new in: admission changes, and nobody is waited for", false, authority.Controller.Close),
		a.stepVerb("drain", "Wait for those who were admitted before, for the grace at most", false, authority.Controller.Drain),
		a.stepVerb("seal", "End the last commits and read the final sequence", false, authority.Controller.Seal),
		a.stepVerb("advance", "Open the scope to the new writer, under the next epoch", true, authority.Controller.Advance),
		a.stepVerb("abort", "Give the scope back to the old writer, under the same epoch", false, authority.Controller.Abort),
		a.stepVerb("complete", "End the window: from then on, restore or fix forward", true, authority.Controller.Complete),
		a.stepVerb("retire", "Note that nothing of the old writer is needed for the scope", true, authority.Controller.Retire),
	}
}

func (a *app) stepVerb(verb, short string, far bool, do func(authority.Controller, context.Context, rail.UUID) (authority.Change, error)) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " CHANGE", Short: short, Args: cobra.ExactArgs(1)}
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		id, err := changeID(args[0])
		if err != nil {
			return err
		}
		if err := s.confirm(c, far, "%s change %s", verb, id); err != nil {
			return err
		}
		return s.step(ctx, c, act, "authority."+verb, func(ctl authority.Controller) (authority.Change, error) { return do(ctl, ctx, id) })
	})
	return cmd
}

// withOldSide makes a verb that goes on with one change, and may ask the other writer.
func (a *app) withOldSide(cmd *cobra.Command, body func(ctx context.Context, s *session, c *change, act jobs.Actor, id rail.UUID, old *oldSide) error) *cobra.Command {
	var url string
	cmd.Args, cmd.Long = cobra.ExactArgs(1), cmd.Long+"\n\n"+oldSideHelp
	cmd.Flags().StringVar(&url, "old-side", "", "`URL` of the other writer's account")
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		id, err := changeID(args[0])
		if err != nil {
			return err
		}
		old, err := checkOldSide(url)
		if err != nil {
			return err
		}
		return body(ctx, s, c, act, id, old)
	})
	return cmd
}

const verifyHelp = "Look at the whole sealed scope, and store what was found; any finding keeps the change from advancing."

func (a *app) authorityVerify() *cobra.Command {
	cmd := &cobra.Command{Use: "verify CHANGE", Short: "Look at the whole sealed scope, and store what was found", Long: verifyHelp}
	return a.withOldSide(cmd, func(ctx context.Context, s *session, c *change, act jobs.Actor, id rail.UUID, old *oldSide) error {
		out := told{}
		err := s.govern(ctx, c, act, func(ctl authority.Controller) error {
			ch, report, err := ctl.Verify(ctx, id, old.heads())
			out = told{Change: ch, Reports: []authority.Report{report}}
			return err
		})
		if err != nil {
			return err
		}
		err = s.show(view{kind: "authority.verify", data: out, names: []string{id.String()}, table: func(p *page) { toldTable(p, out) }})
		if n := len(out.Reports[0].Findings); err == nil && n > 0 {
			err = fail(exitUnhealthy, "the verification found %s: it must not cross", count(n, "thing"))
		}
		return err
	})
}

const crossHelp = `Take a change from wherever it is to its end: close, drain, seal, verify, advance. It
may be stopped or killed between any two of them; the same command goes on, unless the
watchdog of a daemon was faster and gave the scope back at the deadline. A verification
with findings gives it back at once. Exit code 4 when it ends aborted.

With --dry-run the closing is tried and taken back, and no further step.`

func (a *app) authorityCross() *cobra.Command {
	cmd := &cobra.Command{Use: "cross CHANGE", Short: "Take a change from wherever it is to its end", Long: crossHelp}
	return a.withOldSide(cmd, func(ctx context.Context, s *session, c *change, act jobs.Actor, id rail.UUID, old *oldSide) error {
		if c.dryRun {
			return s.step(ctx, c, act, "authority.cross", func(ctl authority.Controller) (authority.Change, error) { return ctl.Close(ctx, id) })
		}
		if err := s.confirm(c, true, "close the scope of change %s and move it", id); err != nil {
			return err
		}
		return s.cross(ctx, act, id, old)
	})
}

func (s *session) cross(ctx context.Context, act jobs.Actor, id rail.UUID, old *oldSide) error {
	w := s.working("crossing")
	ch, err := crossing(ctx, s.controller(act), id, old, func(ch authority.Change) { w.say("%s", ch.Phase) })
	w.end()
	if ch.ID.IsZero() {
		return err
	}
	if shown := s.showStep("authority.cross", stepped{Change: ch}); shown != nil {
		return shown
	}
	switch {
	case errors.Is(err, authority.ErrBlocked):
		return fail(exitRefused, "%w: railctl authority show %s", err, id)
	case err != nil:
		return err
	case ch.Outcome == "aborted":
		return fail(exitRefused, "change %s ended aborted, its scope is %s's as before: %s", id, ch.From, orDash(text(ch.EndReason)))
	}
	return nil
}

const rollbackHelp = `Plan the way back of a change whose window is open, under an id of its own: the same
state machine with the direction swapped, and the same evidence. It is offered where
five conditions are met, and told which one is not where it is refused. From there it
goes on as any change: cross.`

func (a *app) authorityRollback() *cobra.Command {
	var m moveFlags
	cmd := &cobra.Command{Use: "rollback CHANGE", Short: "Plan the way back of a change", Long: rollbackHelp, Args: cobra.ExactArgs(1)}
	m.flags(cmd)
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		of, err := changeID(args[0])
		if err != nil {
			return err
		}
		if err := m.read(); err != nil {
			return err
		}
		var conditions []authority.Condition
		out := stepped{DryRun: c.dryRun}
		err = s.govern(ctx, c, act, func(ctl authority.Controller) error {
			if out.Change, conditions, err = ctl.Rollback(ctx, of, m.Move); err != nil {
				return err
			}
			// there is nothing to build in the shadow on the way back
			out.Change, _, err = ctl.Shadow(ctx, out.ID, authority.ShadowOptions{})
			return err
		})
		if errors.Is(err, authority.ErrNotOffered) {
			return fail(exitRefused, "%w%s", err, conditionLines(conditions))
		}
		if err != nil {
			return err
		}
		return s.showStep("authority.rollback", out)
	})
	return cmd
}

func conditionLines(conditions []authority.Condition) string {
	var b strings.Builder
	for _, c := range conditions {
		b.WriteString("\n  " + c.Name + ": " + metText(c) + ", " + c.Detail)
	}
	return b.String()
}

func metText(c authority.Condition) string {
	if c.Met {
		return "met"
	}
	return "not met"
}

func (a *app) authorityExercised() *cobra.Command {
	events := []string{"deletion", "restore"}
	cmd := &cobra.Command{
		Use: "exercised SCOPE EVENT", Short: "Note that a scope was put through a deletion, or the old side through a restore drill", Args: cobra.ExactArgs(2),
		Long: "Note that a scope was put through an event that leaves no row of its own: deletion, or restore, a drill of the old side.\nA way back needs a recent restore drill, and another cohort every kind of event in the one before it.",
	}
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		scope, err := fenceScope(args[0])
		if err != nil {
			return err
		}
		if args[1] != events[0] && args[1] != events[1] {
			return fail(exitUsage, "event %q: use %s", args[1], strings.Join(events, " or "))
		}
		err = s.govern(ctx, c, act, func(ctl authority.Controller) error { return ctl.Exercised(ctx, scope, args[1]) })
		return s.done(err, c, "authority.exercised", scope, map[string]string{"scope": scope, "event": args[1]}, "note %s of %s", args[1], scope)
	})
	return cmd
}
