package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
)

func (a *app) epochVerbs() *cobra.Command {
	return group("epoch", "Tell the ledger that it has been rewound", a.epochBump())
}

const epochHelp = `Raise the ledger epoch after the database was restored, or failed over to a replica
that may have lost commits: every live claim is fenced and handed back, and the
facts recorded since --since are judged again, so that a landing which the rewind
lost is built again. --since is the time from which commits may be missing; when
in doubt choose an earlier one: a rebuild too many is the only cost.`

func (a *app) epochBump() *cobra.Command {
	var since string
	cmd := &cobra.Command{Use: "bump --since TIME", Short: "Raise the ledger epoch: fence every live claim, judge facts again", Long: epochHelp, Args: cobra.NoArgs}
	cmd.Flags().StringVar(&since, "since", "", "`time` (2026-01-31T12:00:00Z) or age (2h) from which commits may be missing")
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, _ []string) error {
		from, err := instant("since", since, s.now())
		if err != nil {
			return err
		}
		return s.bump(ctx, c, act, from)
	})
	return cmd
}

type bumped struct {
	outbox.Bumped
	Since  time.Time `json:"since"`
	DryRun bool      `json:"dry_run"`
}

func (s *session) bump(ctx context.Context, c *change, act jobs.Actor, since time.Time) error {
	if err := s.confirm(c, true, "fence every live claim and judge all facts since %s again", stamp(since)); err != nil {
		return err
	}
	out := bumped{Since: since, DryRun: c.dryRun}
	err := s.apply(ctx, c, func(tx pgx.Tx) (err error) {
		out.Bumped, err = outbox.BumpEpoch(ctx, tx, since, act.Name, act.Reason)
		return err
	})
	if err != nil {
		return err
	}
	return s.show(view{kind: "epoch.bump", data: out, names: []string{"epoch"}, table: func(p *page) {
		p.line("%s %d; %d live claim(s) fenced and queued again, %d fact(s) to be judged again",
			would(c.dryRun, "the ledger epoch would be", "the ledger epoch is"), out.Epoch, out.Fenced, out.Facts)
	}})
}
