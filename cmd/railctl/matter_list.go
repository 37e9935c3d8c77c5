package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
)

const matterListHelp = `List matters: those that are owed a Brief first, the longest waiting before the others,
then the current ones. With --status parked: who parked them, since when and why.`

func statuses() []string { return []string{"parked", "queued", "running", "idle"} }

func (a *app) matterList() *cobra.Command {
	var f audit.MatterFilter
	var firmText string
	cmd := &cobra.Command{Use: "list", Short: "List matters, or only those that are parked, queued, running or idle", Long: matterListHelp, Args: cobra.NoArgs}
	fs := cmd.Flags()
	fs.StringVar(&f.Status, "status", "", "only jobs in this `state`: "+strings.Join(statuses(), ", "))
	fs.StringVar(&firmText, "firm", "", "only of one `firm`")
	fs.IntVar(&f.Limit, "limit", 50, "at most so many")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, _ []string) (err error) {
		if f.Status != "" && !slices.Contains(statuses(), f.Status) {
			return fail(exitUsage, "--status %q: use %s", f.Status, strings.Join(statuses(), ", "))
		}
		if f.Firm, err = firm(firmText); err != nil {
			return err
		}
		return s.listMatters(ctx, f)
	})
	return cmd
}

func (s *session) listMatters(ctx context.Context, f audit.MatterFilter) error {
	matters, err := audit.Matters(ctx, s.pool, f)
	if err != nil {
		return err
	}
	if err := s.knownFirm(ctx, f.Firm, len(matters) > 0); err != nil {
		return err
	}
	return s.show(listView("matter.list", matters, func(m audit.MatterRow) string { return m.Key.String() }, func(p *page) { mattersTable(p, matters) }))
}

func mattersTable(p *page, matters []audit.MatterRow) {
	if len(matters) == 0 {
		p.line("no matter answers to that")
		return
	}
	p.row("MATTER", "STATE", "OWED SINCE", "TRIES", "PARKED BY", "PARKED", "BECAUSE")
	for _, m := range matters {
		p.row(m.Key, m.Status, p.moment(m.OwedSince), m.Attempts, orElse(m.ParkedActor, m.ParkedBy), p.moment(m.ParkedSince), p.brief(because(m)))
	}
}

// because is why the matter is not built, as far as its row tells.
func because(m audit.MatterRow) string {
	if m.Status == "parked" {
		return m.ParkedReason
	}
	return m.LastError
}
