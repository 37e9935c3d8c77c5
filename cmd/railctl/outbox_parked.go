package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/rail"
)

func (a *app) outboxParked() *cobra.Command {
	var limit int
	cmd := &cobra.Command{Use: "parked", Short: "List facts that no bus or queue will take, with the reason", Args: cobra.NoArgs}
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, _ []string) error {
		if limit < 1 {
			return fail(exitUsage, "--limit %d: want 1 or more", limit)
		}
		parked, err := outbox.ListParked(ctx, s.pool, limit)
		if err != nil {
			return err
		}
		return s.show(listView("outbox.parked", parked, func(x outbox.Parked) string { return x.Event.String() }, func(p *page) {
			p.row("EVENT", "NAME", "FIRM", "MATTER", "RECORDED", "PARKED", "ATTEMPTS", "REASON")
			for _, x := range parked {
				p.row(x.Event, x.Name, x.Firm, x.Matter, x.RecordedAt, x.ParkedAt, x.Attempts, x.Reason)
			}
		}))
	})
	return cmd
}

const replayHelp = `Have parked facts sent again, after the cause was mended: one fact, or all that are
parked. A fact that was published is not sent again: the workers sweep the outbox
and miss none.`

// replayed is how many parked facts are tried again.
type replayed struct {
	Scope  string `json:"scope"` // an event, or all
	Facts  int64  `json:"facts"`
	DryRun bool   `json:"dry_run"`
}

func (a *app) outboxReplay() *cobra.Command {
	var all bool
	cmd := &cobra.Command{Use: "replay [EVENT] [--all-parked]", Short: "Have parked facts sent again", Long: replayHelp, Args: cobra.MaximumNArgs(1)}
	cmd.Flags().BoolVar(&all, "all-parked", false, "every parked fact")
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		if all == (len(args) > 0) {
			return fail(exitUsage, "say which facts: EVENT or --all-parked")
		}
		if all {
			return s.replayAll(ctx, c, act)
		}
		event, err := rail.ParseUUID(args[0])
		if err != nil {
			return fail(exitUsage, "%w", err)
		}
		return s.replayOne(ctx, c, act, event)
	})
	return cmd
}

func (s *session) replayAll(ctx context.Context, c *change, act jobs.Actor) error {
	n, err := outbox.CountParked(ctx, s.pool)
	if err != nil {
		return err
	}
	if err := s.confirm(c, true, "have %d parked fact(s) sent again", n); err != nil {
		return err
	}
	_, err = s.replay(ctx, c, act, nil, "all")
	return err
}

func (s *session) replayOne(ctx context.Context, c *change, act jobs.Actor, event rail.UUID) error {
	if _, err := outbox.Get(ctx, s.pool, event); err != nil {
		return err
	}
	if err := s.confirm(c, false, "have fact %s sent again", event); err != nil {
		return err
	}
	n, err := s.replay(ctx, c, act, []rail.UUID{event}, event.String())
	if err == nil && n == 0 {
		return fail(exitRefused, "fact %s is not parked", event)
	}
	return err
}

func (s *session) replay(ctx context.Context, c *change, act jobs.Actor, events []rail.UUID, scope string) (int64, error) {
	out := replayed{Scope: scope, DryRun: c.dryRun}
	err := s.apply(ctx, c, func(tx pgx.Tx) (err error) {
		out.Facts, err = outbox.Replay(ctx, tx, events, act.Name, act.Reason)
		return err
	})
	if err != nil {
		return 0, err
	}
	return out.Facts, s.show(view{kind: "outbox.replay", data: out, names: []string{scope}, table: func(p *page) {
		p.line("%s %d fact(s)", would(c.dryRun, "would have sent again", "to be sent again:"), out.Facts)
	}})
}
