package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"briefrail/internal/audit"
	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

const parkHelp = `Stop what the rail does for a matter until somebody unparks it. Demand is still
recorded meanwhile. A build that is running is fenced: it may go on, but what it
writes is refused.`

const cancelHelp = `Fence the build that is running: it may go on, but what it writes is refused. To the
ledger this is "park" under another name, which the audit log keeps: the matter stays
parked, so that it is not built again at once, until "matter unpark". Unlike park it
takes one matter only.`

func (a *app) matterPark() *cobra.Command {
	var sel selection
	cmd := &cobra.Command{Use: "park [MATTER]", Short: "Stop a matter, or many, until they are unparked", Long: parkHelp, Args: cobra.MaximumNArgs(1)}
	sel.flags(cmd, "queued", "running")
	return a.stopVerb(cmd, &sel, "park", "park %d matter(s)", jobs.Actor.Park)
}

func (a *app) matterUnpark() *cobra.Command {
	var sel selection
	cmd := &cobra.Command{
		Use: "unpark [MATTER]", Short: "Queue a parked matter, or many, at once", Args: cobra.MaximumNArgs(1),
		Long: "Queue a parked matter at once, with its attempts forgotten.",
	}
	sel.flags(cmd, "parked")
	return a.stopVerb(cmd, &sel, "unpark", "unpark %d matter(s)", unpark)
}

func (a *app) matterCancel() *cobra.Command {
	cmd := &cobra.Command{Use: "cancel MATTER", Short: "Fence the build of a matter and park it", Long: cancelHelp, Args: cobra.ExactArgs(1)}
	return a.stopVerb(cmd, &selection{}, "cancel", "", jobs.Actor.Cancel)
}

// stop changes one job and returns the status it had, or "" where its state does
// not allow the change.
type stop func(act jobs.Actor, ctx context.Context, db pg.DB, k rail.Key) (was string, err error)

func unpark(act jobs.Actor, ctx context.Context, db pg.DB, k rail.Key) (string, error) {
	was, err := act.Unpark(ctx, db, k)
	if !was {
		return "", err
	}
	return "parked", err
}

func (a *app) stopVerb(cmd *cobra.Command, sel *selection, verb, phrase string, do stop) *cobra.Command {
	c := a.changeFlags(cmd)
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		_, err := single(args, sel)
		return err
	}
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		if len(args) == 1 {
			return s.stopOne(ctx, c, act, args[0], verb, do)
		}
		return s.bulk(ctx, c, stoppable(sel, verb), bulk{"matter." + verb, phrase, func(ctx context.Context, tx pgx.Tx, keys []rail.Key) (changed []rail.Key, err error) {
			for _, k := range keys {
				was, err := do(act, ctx, tx, k)
				if err != nil {
					return nil, err
				}
				if was != "" {
					changed = append(changed, k)
				}
			}
			return changed, nil
		}})
	})
	return cmd
}

// stoppable narrows a selection to what the verb can change, where one state is
// all it can.
func stoppable(sel *selection, verb string) *selection {
	if verb == "unpark" {
		sel.status = "parked"
	}
	return sel
}

func (s *session) stopOne(ctx context.Context, c *change, act jobs.Actor, text, verb string, do stop) error {
	k, err := s.matter(ctx, text)
	if err != nil {
		return err
	}
	if _, err := s.job(ctx, k); err != nil {
		return err
	}
	if err := s.confirm(c, false, "%s %s", verb, k); err != nil {
		return err
	}
	return s.changeOne(ctx, c, k, "matter."+verb, func(tx pgx.Tx, was audit.JobRow) error {
		before, err := do(act, ctx, tx, k)
		if err == nil && before == "" {
			err = fail(exitRefused, "matter %s is %s: %s", k, was.Status, whyNot(verb, was))
		}
		return err
	})
}

// whyNot explains a refusal by the state of the job.
func whyNot(verb string, was audit.JobRow) string {
	switch {
	case verb == "unpark":
		return "only a parked matter is unparked"
	case was.Status == "idle":
		return "it owes nothing, so there is nothing to " + verb
	case was.Status == "parked":
		return "it is stopped already, by " + was.ParkedBy
	}
	return "its state changed meanwhile, look again"
}
