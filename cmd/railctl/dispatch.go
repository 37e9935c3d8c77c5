package main

import (
	"context"
	"fmt"

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
	Queued  int64  `json:"queued"`  // matters in the scope that wait for a build
	Running int64  `json:"running"` // builds in the scope, which a pause lets go on
	DryRun  bool   `json:"dry_run"`
}

type pausing func(act jobs.Actor, ctx context.Context, db pg.DB, firm rail.UUID) (bool, error)

// pauseFlags are what a pause or its end was asked for.
type pauseFlags struct {
	verb         string
	all, unknown bool
}

func (a *app) pauseVerb(cmd *cobra.Command, verb string, do pausing) *cobra.Command {
	x := pauseFlags{verb: verb}
	cmd.Flags().BoolVar(&x.all, "all", false, "every firm")
	if verb == "pause" {
		cmd.Flags().BoolVar(&x.unknown, "new", false, "also a firm that the ledger has never seen")
	}
	c := a.changeFlags(cmd)
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		if x.all == (len(args) == 1) {
			return fail(exitUsage, "name a FIRM, or --all for every firm")
		}
		return nil
	}
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		var f rail.UUID
		if !x.all {
			var err error
			if f, err = firm(args[0]); err != nil {
				return err
			}
		}
		return s.pause(ctx, c, act, x, f, do)
	})
	return cmd
}

func (s *session) pause(ctx context.Context, c *change, act jobs.Actor, x pauseFlags, firm rail.UUID, do pausing) error {
	err := s.knownFirm(ctx, firm, x.unknown)
	if isNotFound(err) && x.verb == "pause" {
		err = fail(exitNotFound, "%w; --new pauses it all the same", err)
	}
	if err != nil {
		return err
	}
	out := paused{Action: "dispatch." + x.verb, Scope: scope(firm), DryRun: c.dryRun}
	if err := s.countHeld(ctx, firm, &out); err != nil {
		return err
	}
	if err := s.confirm(c, firm.IsZero() && x.verb == "pause", "%s the dispatch of %s (%d queued, %d running)", x.verb, out.Scope, out.Queued, out.Running); err != nil {
		return err
	}
	err = s.apply(ctx, c, func(tx pgx.Tx) (err error) {
		out.Changed, err = do(act, ctx, tx, firm)
		return err
	})
	if err != nil {
		return err
	}
	return s.show(view{kind: out.Action, data: out, names: []string{out.Scope}, table: func(p *page) { p.line("%s", out.text(x.verb)) }})
}

// countHeld counts what a pause of the scope holds back, and what it lets go on.
func (s *session) countHeld(ctx context.Context, firm rail.UUID, out *paused) error {
	for status, n := range map[string]*int64{"queued": &out.Queued, "running": &out.Running} {
		var err error
		if *n, err = audit.BulkCount(ctx, s.pool, audit.BulkFilter{Firm: firm, All: firm.IsZero(), Status: status}); err != nil {
			return err
		}
	}
	return nil
}

func (out paused) text(verb string) string {
	if !out.Changed {
		return fmt.Sprintf("dispatch of %s: nothing to %s, it is so already", out.Scope, verb)
	}
	held := fmt.Sprintf("%d queued matter(s) are held back, %d running build(s) go on", out.Queued, out.Running)
	if verb == "resume" {
		held = fmt.Sprintf("%d queued matter(s) may be claimed", out.Queued)
	}
	return fmt.Sprintf("%s dispatch of %s: %s", would(out.DryRun, "would "+verb, verb+"d"), out.Scope, held)
}

func dispatchList(ctx context.Context, s *session, _ []string) error {
	st, err := audit.ReadStatus(ctx, s.pool)
	if err != nil {
		return err
	}
	return s.show(listView("dispatch.list", st.Pauses, func(x audit.PauseRow) string { return scope(x.Firm) }, func(p *page) {
		p.now = st.At
		if len(st.Pauses) == 0 {
			p.line("dispatch is not paused")
		}
		pausesTable(p, st.Pauses)
	}))
}
