package main

import (
	"context"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
)

func (a *app) outboxVerbs() *cobra.Command {
	return group("outbox", "Look at facts and what became of them", a.outboxList(), a.outboxDrain(),
		a.outboxParked(), a.outboxReplay(), a.outboxRedecide(), a.outboxPublishing())
}

func (a *app) outboxList() *cobra.Command {
	var f audit.FactFilter
	var firmText, matterText, sinceText string
	cmd := &cobra.Command{Use: "list", Short: "List facts with their verdicts, the latest first", Args: cobra.NoArgs}
	fs := cmd.Flags()
	fs.StringVar(&firmText, "firm", "", "only of one `firm`")
	fs.StringVar(&matterText, "matter", "", "only of one `MATTER`")
	fs.StringVar(&f.Name, "name", "", "only of this event `name`")
	fs.StringVar(&f.Verdict, "verdict", "", "only with this verdict: demanded, ignored, a `pattern` like gated:%, or none")
	fs.BoolVar(&f.Undecided, "undecided", false, "only facts that wait for the trigger")
	fs.StringVar(&sinceText, "since", "", "only recorded since this `time` or age (2h, 3d)")
	fs.IntVar(&f.Limit, "limit", 50, "at most so many")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, _ []string) (err error) {
		if f.Firm, f.Matter, err = narrow(firmText, matterText); err != nil {
			return err
		}
		if f.Since, err = since("since", sinceText, s.now()); err != nil {
			return err
		}
		return s.listFacts(ctx, f)
	})
	return cmd
}

func (s *session) listFacts(ctx context.Context, f audit.FactFilter) error {
	facts, err := audit.Outbox(ctx, s.pool, f)
	if err != nil {
		return err
	}
	return s.show(listView("outbox.list", facts, func(x audit.FactRow) string { return x.Event.String() }, func(p *page) {
		p.row("EVENT", "NAME", "FIRM", "MATTER", "RECORDED", "VERDICT", "GENERATION")
		for _, x := range facts {
			p.row(x.Event, x.Name, p.id(x.Firm), p.id(x.Matter), p.moment(&x.RecordedAt), verdictText(x), generationText(x.Generation))
		}
	}))
}

func verdictText(f audit.FactRow) string {
	switch {
	case f.Undecided && f.Verdict != "":
		return f.Verdict + ", to be judged again"
	case f.Undecided:
		return "waits for the trigger"
	}
	return f.Verdict
}

func generationText(g int64) any {
	if g == 0 {
		return ""
	}
	return g
}
