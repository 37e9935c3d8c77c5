package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
)

func (a *app) auditVerbs() *cobra.Command {
	var target string
	var limit int
	cmd := &cobra.Command{Use: "list", Short: "List what operators changed, the latest first", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&target, "target", "", "only of this `target`: FIRM/MATTER, a firm, all, or ledger")
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, _ []string) error {
		rows, err := audit.AuditRows(ctx, s.pool, target, limit)
		if err != nil {
			return err
		}
		return s.showActs(rows)
	})
	return group("audit", "Look at what operators changed", cmd)
}

// act is an audit row whose details are JSON rather than text with JSON in it.
type act struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor"`
	Action  string          `json:"action"`
	Target  string          `json:"target"`
	Reason  string          `json:"reason"`
	Details json.RawMessage `json:"details,omitempty"`
}

func (s *session) showActs(rows []audit.AuditRow) error {
	acts, names := make([]act, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		acts[i] = act{r.ID, r.At, r.Actor, r.Action, r.Target, r.Reason, json.RawMessage(r.Details)}
		names[i] = strconv.FormatInt(r.ID, 10)
	}
	return s.show(view{kind: "audit.list", data: acts, names: names, table: func(p *page) {
		p.row("ID", "AT", "WHO", "ACTION", "TARGET", "WHY", "DETAILS")
		for _, x := range acts {
			p.row(x.ID, x.At, x.Actor, x.Action, x.Target, x.Reason, string(x.Details))
		}
	}})
}
