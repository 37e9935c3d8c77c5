package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"briefrail/internal/audit"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
)

const demandHelp = `Demand a rebuild of one matter, or of many: of a firm, of all firms, of those whose
current frame another builder version made (--not-by-builder: which of two versions is
older is not known, so name the one that you want). It waits for no quiet time; while a
build runs it makes one follow-up; a matter that was parked after failures is tried
again, one that an operator parked stays parked until it is unparked.`

// matterChange is what a verb did to one matter.
type matterChange struct {
	rail.Key
	Action    string `json:"action"`
	Was       string `json:"was"` // run_status before; empty when there was no job
	Now       string `json:"now"`
	Requested int64  `json:"requested_generation"`
	DryRun    bool   `json:"dry_run"`
}

func (a *app) matterDemand() *cobra.Command {
	var priority string
	var unknown bool
	var sel selection
	cmd := &cobra.Command{Use: "demand [MATTER]", Short: "Demand a rebuild of a matter, or of many", Long: demandHelp, Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVar(&priority, "priority", "", "interactive, standard or bulk (default interactive for one matter, bulk for many)")
	cmd.Flags().BoolVar(&unknown, "new", false, "also for a matter that the rail has never heard of")
	sel.flags(cmd, "idle", "queued", "running", "parked")
	c := a.changeFlags(cmd)
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		_, err := single(args, &sel)
		return err
	}
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		p, err := priorityOf(priority, len(args) == 1)
		if err != nil {
			return err
		}
		if len(args) == 1 {
			return s.demandOne(ctx, c, act, args[0], p, unknown)
		}
		return s.bulk(ctx, c, &sel, bulk{"matter.demand", "demand a rebuild of %d matter(s)", func(ctx context.Context, tx pgx.Tx, keys []rail.Key) ([]rail.Key, error) {
			_, err := act.Demand(ctx, tx, keys, p)
			return keys, err
		}})
	})
	return cmd
}

func priorityOf(text string, one bool) (rail.Priority, error) {
	switch {
	case text != "":
		p, err := rail.ParsePriority(text)
		if err != nil {
			return p, fail(exitUsage, "--priority: %w", err)
		}
		return p, nil
	case one:
		return rail.Interactive, nil
	}
	return rail.Bulk, nil
}

func (s *session) demandOne(ctx context.Context, c *change, act jobs.Actor, text string, p rail.Priority, unknown bool) error {
	k, err := s.matter(ctx, text)
	if err != nil {
		return err
	}
	if !unknown {
		if err := s.heardOf(ctx, k); err != nil {
			return err
		}
	}
	if err := s.confirm(c, false, "demand a rebuild of %s", k); err != nil {
		return err
	}
	return s.changeOne(ctx, c, k, "matter.demand", func(tx pgx.Tx, _ audit.JobRow) error {
		_, err := act.Demand(ctx, tx, []rail.Key{k}, p)
		return err
	})
}

// heardOf refuses a matter with neither job nor fact: a mistyped key would be
// built for ever after.
func (s *session) heardOf(ctx context.Context, k rail.Key) error {
	_, err := audit.ReadJob(ctx, s.pool, k)
	if !errors.Is(err, audit.ErrNotFound) {
		return err
	}
	facts, err := audit.Outbox(ctx, s.pool, audit.FactFilter{Firm: k.Firm, Matter: k.Matter, Limit: 1})
	if err != nil || len(facts) > 0 {
		return err
	}
	return fail(exitNotFound, "%w (--new demands it all the same)", s.unknown(ctx, k))
}

// changeOne runs a change of one matter and shows the job before and after.
func (s *session) changeOne(ctx context.Context, c *change, k rail.Key, action string, fn func(tx pgx.Tx, was audit.JobRow) error) error {
	out := matterChange{Key: k, Action: action, DryRun: c.dryRun}
	err := s.apply(ctx, c, func(tx pgx.Tx) error {
		was, err := audit.ReadJob(ctx, tx, k)
		if err != nil && !errors.Is(err, audit.ErrNotFound) {
			return err
		}
		if err := fn(tx, was); err != nil {
			return err
		}
		now, err := audit.ReadJob(ctx, tx, k)
		out.Was, out.Now, out.Requested = was.Status, now.Status, now.Requested
		return err
	})
	if err != nil {
		return err
	}
	return s.show(view{kind: action, data: out, names: []string{k.String()}, table: func(p *page) {
		p.line("%s", fmt.Sprintf("%s %s: was %s, %s %s, requested generation %d", would(c.dryRun, action, action), k, orElse(out.Was, "unknown"),
			isNow(c.dryRun), out.Now, out.Requested))
	}})
}

func isNow(dryRun bool) string {
	if dryRun {
		return "would be"
	}
	return "is"
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
