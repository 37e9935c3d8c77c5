package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"briefrail/internal/jobs"
	"briefrail/internal/rail"
)

const purgeHelp = `Delete everything that the ledger holds of a matter: its frames, its runs and its
job. It cannot be undone. A build that is running is fenced. Facts and receipts,
which hold ids only, stay until their own retention; the audit row stays.`

// purged is what went.
type purged struct {
	rail.Key
	jobs.Purged
	DryRun bool `json:"dry_run"`
}

func (a *app) matterPurge() *cobra.Command {
	cmd := &cobra.Command{Use: "purge MATTER", Short: "Delete the frames, runs and job of a matter", Long: purgeHelp, Args: cobra.ExactArgs(1)}
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		k, err := s.matter(ctx, args[0])
		if err != nil {
			return err
		}
		if _, err := s.job(ctx, k); err != nil {
			return err
		}
		if err := s.confirm(c, true, "delete all frames, all runs and the job of %s for ever", k); err != nil {
			return err
		}
		return s.purge(ctx, c, act, k)
	})
	return cmd
}

func (s *session) purge(ctx context.Context, c *change, act jobs.Actor, k rail.Key) error {
	out := purged{Key: k, DryRun: c.dryRun}
	err := s.apply(ctx, c, func(tx pgx.Tx) (err error) {
		out.Purged, err = act.Purge(ctx, tx, k)
		return err
	})
	if err != nil {
		return err
	}
	return s.show(view{kind: "matter.purge", data: out, names: []string{k.String()}, table: func(p *page) {
		p.line("%s %s: %d frame(s), %d run(s), %d job(s)", would(c.dryRun, "would purge", "purged"), k, out.Frames, out.Runs, out.Jobs)
	}})
}
