package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
	"briefrail/internal/rail"
)

func (a *app) runsVerbs() *cobra.Command {
	show := &cobra.Command{Use: "show RUN", Short: "Show one attempt whole", Args: cobra.ExactArgs(1), RunE: a.withDB(runShow)}
	return group("runs", "Look at attempts: one a claim", a.runsList(), show)
}

func outcomes() []string {
	return []string{"running", "landed", "failed", "expired", "fenced", "released", "cancelled"}
}

func (a *app) runsList() *cobra.Command {
	var f audit.RunFilter
	var firmText, matterText, sinceText string
	cmd := &cobra.Command{Use: "list", Short: "List attempts, the latest first", Long: "List attempts, the latest first. The table shortens identifiers: -o wide has them whole.", Args: cobra.NoArgs}
	fs := cmd.Flags()
	fs.StringVar(&firmText, "firm", "", "only of one `firm`")
	fs.StringVar(&matterText, "matter", "", "only of one `MATTER`")
	fs.StringVar(&f.Outcome, "outcome", "", "only with this outcome: "+strings.Join(outcomes(), ", "))
	fs.StringVar(&f.Worker, "worker", "", "only of one worker")
	fs.BoolVar(&f.Late, "late", false, "only zombies: runs whose late write was refused")
	fs.StringVar(&sinceText, "since", "", "only started since this `time` or age (2h, 3d)")
	fs.IntVar(&f.Limit, "limit", 50, "at most so many")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, _ []string) (err error) {
		if f.Outcome != "" && !slices.Contains(outcomes(), f.Outcome) {
			return fail(exitUsage, "--outcome %q: use %s", f.Outcome, strings.Join(outcomes(), ", "))
		}
		if f.Firm, f.Matter, err = narrow(firmText, matterText); err != nil {
			return err
		}
		if f.Since, err = since("since", sinceText, s.now()); err != nil {
			return err
		}
		return s.listRuns(ctx, f)
	})
	return cmd
}

func (s *session) listRuns(ctx context.Context, f audit.RunFilter) error {
	runs, err := audit.Runs(ctx, s.pool, f)
	if err != nil {
		return err
	}
	return s.show(listView("runs.list", runs, func(r audit.RunRow) string { return r.RunID.String() }, func(p *page) {
		p.row("RUN", "MATTER", "TOKEN", "TRY", "OUTCOME", "STARTED", "TOOK", "WORKER", "ERROR")
		for _, r := range runs {
			p.row(p.id(r.RunID), p.key(r.Key), r.Generation, r.Attempt, outcomeText(r), p.moment(&r.StartedAt), took(r), r.Worker, r.ErrorKind)
		}
	}))
}

func outcomeText(r audit.RunRow) string {
	if r.LateWriteAt != nil {
		return r.Outcome + ", late write refused"
	}
	return r.Outcome
}

func took(r audit.RunRow) string {
	if r.FinishedAt == nil {
		return ""
	}
	return r.FinishedAt.Sub(r.StartedAt).Round(time.Millisecond).String()
}

func runShow(ctx context.Context, s *session, args []string) error {
	id, err := rail.ParseUUID(args[0])
	if err != nil {
		return fail(exitUsage, "run: %w", err)
	}
	r, err := audit.ReadRun(ctx, s.pool, id)
	if err != nil {
		return err
	}
	return s.show(view{kind: "runs.show", data: r, names: []string{r.RunID.String()}, table: func(p *page) { runTable(p, r) }})
}

func runTable(p *page, r audit.RunRow) {
	p.row("Run", r.RunID)
	p.row("Matter", r.Key)
	p.row("Token", r.Generation)
	p.row("Attempt", r.Attempt)
	p.row("Retry of", r.RetryOf)
	p.row("Worker", r.Worker)
	p.row("Builder", r.Builder)
	p.row("Started", r.StartedAt)
	p.row("Finished", r.FinishedAt)
	p.row("Took", took(r))
	p.row("Outcome", r.Outcome)
	p.row("Error", strings.TrimSpace(r.ErrorKind+" "+r.ErrorText))
	p.row("Late write", r.LateWriteAt)
	p.row("Demands served", r.Demands)
	p.row("Usage", usageText(r))
	p.row("Trace", r.TraceParent)
}

// usageText leaves out what the builder did not say, which a run keeps as nothing or
// as zero.
func usageText(r audit.RunRow) string {
	var parts []string
	if r.ModelCalls != nil && *r.ModelCalls > 0 {
		parts = append(parts, fmt.Sprintf("%d model call(s)", *r.ModelCalls))
	}
	if r.Tokens != nil && *r.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", *r.Tokens))
	}
	if r.CostUSD != "" {
		parts = append(parts, r.CostUSD+" USD")
	}
	return strings.Join(parts, ", ") // the page has a dash for nothing
}
