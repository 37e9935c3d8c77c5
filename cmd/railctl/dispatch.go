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

func (a *app) dispatchVerbs() *cobra.Command {
	pause := &cobra.Command{
		Use: "pause [FIRM]", Short: "Hold back new builds of a firm, or of all with --all", Args: cobra.MaximumNArgs(1),
		Long: "Hold back new builds. Demand is still recorded, and running builds go on.",
	}
	resume := &cobra.Command{
		Use: "resume [FIRM]", Short: "End a pause", Args: cobra.MaximumNArgs(1),
		Long: "End the pause of a firm, or with --all the one of all firms. Pauses of single firms are their own and stay.",
	}
	show := &cobra.Command{Use: "list", Short: "List the pauses", Args: cobra.NoArgs, RunE: a.withDB(dispatchList)}
	return group("dispatch", "Hold builds back and let them go",
		a.pauseVerb(pause, "pause", jobs.Actor.Pause), a.pauseVerb(resume, "resume", jobs.Actor.Resume), show)
}

// scope names a firm or all of them.
func scope(firm rail.UUID) string {
	if firm.IsZero() {
		return "all"
	}
	return firm.String()
}

type paused struct {
	Action  string `json:"action"`
	Scope   string `json:"scope"` // a firm's UUID, or all
	Changed bool   `json:"changed"`
	DryRun  bool   `json:"dry_run"`
}

type pausing func(act jobs.Actor, ctx context.Context, db pg.DB, firm rail.UUID) (bool, error)

func (a *app) pauseVerb(cmd *cobra.Command, verb string, do pausing) *cobra.Command {
	var all bool
	cmd.Flags().BoolVar(&all, "all", false, "every firm")
	c := a.changeFlags(cmd)
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		if all == (len(args) == 1) {
			return fail(exitUsage, "name a FIRM, or --all for every firm")
		}
		return nil
	}
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		var f rail.UUID
		if !all {
			var err error
			if f, err = firm(args[0]); err != nil {
				return err
			}
		}
		return s.pause(ctx, c, act, verb, f, do)
	})
	return cmd
}

func (s *session) pause(ctx context.Context, c *change, act jobs.Actor, verb string, firm rail.UUID, do pausing) error {
	if err := s.confirm(c, firm.IsZero() && verb == "pause", "%s the dispatch of %s", verb, scope(firm)); err != nil {
		return err
	}
	out := paused{Action: "dispatch." + verb, Scope: scope(firm), DryRun: c.dryRun}
	err := s.apply(ctx, c, func(tx pgx.Tx) (err error) {
		out.Changed, err = do(act, ctx, tx, firm)
		return err
	})
	if err != nil {
		return err
	}
	return s.show(view{kind: out.Action, data: out, names: []string{out.Scope}, table: func(p *page) {
		if !out.Changed {
			p.line("dispatch of %s: nothing to %s, it is so already", out.Scope, verb)
			return
		}
		p.line("%s dispatch of %s", would(c.dryRun, "would "+verb, verb+"d"), out.Scope)
	}})
}

func dispatchList(ctx context.Context, s *session, _ []string) error {
	st, err := audit.ReadStatus(ctx, s.pool)
	if err != nil {
		return err
	}
	names := make([]string, len(st.Pauses))
	for i, x := range st.Pauses {
		names[i] = scope(x.Firm)
	}
	return s.show(view{kind: "dispatch.list", data: list(st.Pauses), names: names, table: func(p *page) {
		p.now = st.At
		if len(st.Pauses) == 0 {
			p.line("dispatch is not paused")
		}
		pausesTable(p, st.Pauses)
	}})
}
