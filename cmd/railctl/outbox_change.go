package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"briefrail/internal/audit"
	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/rail"
)

const redecideHelp = `Have facts judged again under today's rules, after a rule or a gate was changed: a
firm that was disabled, a matter that was closed, a name that had no rule. Facts
that became demand are left alone.`

// redecided is how many facts became undecided again.
type redecided struct {
	Verdict string    `json:"verdict"`
	Scope   string    `json:"scope"`
	Since   time.Time `json:"since"`
	Facts   int64     `json:"facts"`
	DryRun  bool      `json:"dry_run"`
}

func (a *app) outboxRedecide() *cobra.Command {
	var verdict, firmText, sinceText string
	var all bool
	cmd := &cobra.Command{Use: "redecide --verdict PATTERN --since TIME", Short: "Have facts judged again under today's rules", Long: redecideHelp, Args: cobra.NoArgs}
	fs := cmd.Flags()
	fs.StringVar(&verdict, "verdict", "", "facts with this verdict: ignored, or a `pattern` like gated:%")
	fs.StringVar(&sinceText, "since", "", "recorded since this `time` or age (2h, 3d)")
	fs.StringVar(&firmText, "firm", "", "of one `firm`")
	fs.BoolVar(&all, "all", false, "of every firm")
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, _ []string) error {
		if verdict == "demanded" {
			return fail(exitUsage, "--verdict demanded: a fact that became demand is not judged again")
		}
		if verdict == "" || all == (firmText != "") {
			return fail(exitUsage, "say which facts: --verdict PATTERN, and --firm FIRM or --all")
		}
		f, err := firm(firmText)
		if err != nil {
			return err
		}
		from, err := instant("since", sinceText, s.now())
		if err != nil {
			return err
		}
		return s.redecide(ctx, c, act, verdict, from, f)
	})
	return cmd
}

func (s *session) redecide(ctx context.Context, c *change, act jobs.Actor, verdict string, from time.Time, firm rail.UUID) error {
	n, err := audit.OutboxCount(ctx, s.pool, audit.FactFilter{Firm: firm, Verdict: verdict, Since: from})
	if err != nil {
		return err
	}
	if err := s.confirm(c, true, "have up to %d fact(s) judged again", n); err != nil {
		return err
	}
	out := redecided{Verdict: verdict, Scope: scope(firm), Since: from, DryRun: c.dryRun}
	err = s.apply(ctx, c, func(tx pgx.Tx) (err error) {
		out.Facts, err = outbox.Redecide(ctx, tx, verdict, from, firm, act.Name, act.Reason)
		return err
	})
	if err != nil {
		return err
	}
	return s.show(view{kind: "outbox.redecide", data: out, names: []string{out.Scope}, table: func(p *page) {
		p.line("%s %d fact(s) with verdict like %s, recorded since %s", would(c.dryRun, "would have judged again", "to be judged again:"), out.Facts, verdict, stamp(from))
	}})
}

const publishingHelp = `Say whether retention may take a fact that was not published. "required" once a
relay sends facts on; "none" while the worker takes them from the ledger alone.
Without an argument: show what holds now.`

type publishing struct {
	Publishing string `json:"publishing"`
	Changed    bool   `json:"changed"`
	DryRun     bool   `json:"dry_run"`
}

func (a *app) outboxPublishing() *cobra.Command {
	cmd := &cobra.Command{
		Use: "publishing [none|required]", Short: "Show or set whether facts must be published", Long: publishingHelp,
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), ValidArgs: []string{"none", "required"},
	}
	c := a.changeFlags(cmd)
	show := a.withDB(func(ctx context.Context, s *session, _ []string) error {
		l, err := outbox.ReadLedger(ctx, s.pool)
		if err != nil {
			return err
		}
		return s.showPublishing(publishing{Publishing: l.Publishing})
	})
	set := a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		return s.setPublishing(ctx, c, act, args[0])
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return show(cmd, args)
		}
		return set(cmd, args)
	}
	return cmd
}

func (s *session) setPublishing(ctx context.Context, c *change, act jobs.Actor, wanted string) error {
	if err := s.confirm(c, true, "set publishing to %s", wanted); err != nil {
		return err
	}
	out := publishing{Publishing: wanted, DryRun: c.dryRun}
	err := s.apply(ctx, c, func(tx pgx.Tx) (err error) {
		out.Changed, err = outbox.SetPublishing(ctx, tx, wanted, act.Name, act.Reason)
		return err
	})
	if err != nil {
		return err
	}
	return s.showPublishing(out)
}

func (s *session) showPublishing(out publishing) error {
	return s.show(view{kind: "outbox.publishing", data: out, names: []string{out.Publishing}, table: func(p *page) {
		p.line("%s %s", would(out.DryRun, "publishing would be", "publishing is"), out.Publishing)
	}})
}
