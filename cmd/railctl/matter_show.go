package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
	"briefrail/internal/frames"
	"briefrail/internal/rail"
)

// matterShown is a matter as the ledger has it now.
type matterShown struct {
	Job     audit.JobRow     `json:"job"`
	Current bool             `json:"current"`
	Frames  []audit.FrameRow `json:"frames"`
	Content json.RawMessage  `json:"content,omitempty"`
}

func (a *app) matterShow() *cobra.Command {
	var content bool
	cmd := &cobra.Command{Use: "show MATTER", Short: "Show the job of a matter and its frames", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&content, "show-content", false, "also print the current frame itself, which quotes documents")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, args []string) error {
		k, err := s.matter(ctx, args[0])
		if err != nil {
			return err
		}
		m, err := s.readMatter(ctx, k, content)
		if err != nil {
			return err
		}
		return s.show(view{kind: "matter.show", data: m, names: []string{k.String()}, table: m.table})
	})
	return cmd
}

func (s *session) readMatter(ctx context.Context, k rail.Key, content bool) (m matterShown, err error) {
	if m.Job, err = s.job(ctx, k); err != nil {
		return m, err
	}
	m.Current = m.Job.OwedSince == nil
	if m.Frames, err = audit.Frames(ctx, s.pool, k); err != nil || !content {
		return m, err
	}
	f, ok, err := frames.Current(ctx, s.pool, k)
	if err == nil && ok {
		m.Content = f.JSON
	}
	return m, err
}

func (m matterShown) table(p *page) {
	j := m.Job
	p.row("Matter", j.Key)
	p.row("Brief", briefState(p, j, len(m.Frames) > 0))
	p.row("State", j.Status)
	p.row("Generations", fmt.Sprintf("requested %d, claimed %d, landed %d", j.Requested, j.Claimed, j.Landed))
	p.row("Priority", priorityCell(j))
	p.row("Attempts", j.Attempts)
	p.row("Demands owed", j.DemandsOwed)
	stateRows(p, j)
	if len(m.Frames) > 0 {
		p.line("")
		p.row("FRAME", "BUILT", "BUILDER", "SCHEMA", "STORED", "RUN")
	}
	for _, f := range m.Frames {
		p.row(f.Generation, f.BuiltAt, f.BuilderVersion, f.SchemaVersion, fmt.Sprintf("%d B", f.Bytes), f.RunID)
	}
	if m.Content != nil {
		p.section("%s", m.Content)
	}
}

// priorityCell is "-" for an idle matter: its row still holds the priority of the
// last demand, which nothing waits with.
func priorityCell(j audit.JobRow) string {
	if j.Status == "idle" {
		return ""
	}
	return rail.Priority(j.Priority).String()
}

// stateRows are what matters in the state that the job is in.
func stateRows(p *page, j audit.JobRow) {
	switch j.Status {
	case "queued":
		p.row("Queued", j.QueuedAt)
		p.row("Not before", j.NotBefore)
	case "running":
		p.row("Run", j.RunID)
		p.row("Claimed", j.ClaimedAt)
		p.row("Lease ends", j.LeaseExpiresAt)
		if j.RebuildNeeded {
			p.row("Asked again", j.RebuildSince)
		}
	case "parked":
		p.row("Parked by", j.ParkedBy)
		p.row("Because", j.ParkedReason)
	}
	if j.LastError != "" {
		p.row("Last error", j.LastError)
	}
}

func briefState(p *page, j audit.JobRow, built bool) string {
	switch {
	case j.OwedSince == nil:
		return "current"
	case built:
		return "stale since " + p.when(*j.OwedSince)
	}
	return "not built yet; owed since " + p.when(*j.OwedSince)
}
