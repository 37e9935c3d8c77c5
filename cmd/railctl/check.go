package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
)

const checkHelp = `Ask every invariant of the ledger. Exit code 6 when one is broken; 1 when one could
not be asked.`

func (a *app) checkVerb() *cobra.Command {
	var window time.Duration
	cmd := &cobra.Command{Use: "check", Short: "Ask every invariant of the ledger", Long: checkHelp, Args: cobra.NoArgs}
	cmd.Flags().DurationVar(&window, "window", 0, "look only at runs and facts of the last so much time (0: all that is kept)")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, _ []string) error {
		w := s.working("checking")
		found, err := audit.Check(ctx, s.pool, audit.CheckOptions{Window: window, Timeout: s.cfg.Database.StatementTimeout})
		w.end()
		if err != nil {
			return err
		}
		if err := s.showFindings(found); err != nil {
			return err
		}
		return verdictOf(found)
	})
	return cmd
}

func (s *session) showFindings(found []audit.Finding) error {
	var bad []string
	for _, f := range found {
		if !f.Healthy() {
			bad = append(bad, f.Invariant)
		}
	}
	data := map[string]any{"healthy": len(bad) == 0, "findings": list(found)}
	return s.show(view{kind: "check", data: data, names: bad, table: func(p *page) {
		p.row("INVARIANT", "STATE", "VIOLATIONS", "DETAIL")
		for _, f := range found {
			p.row(f.Invariant, findingState(f), f.Violations, f.Detail)
			if f.Err != "" {
				p.row(blank, blank, blank, f.Err)
			}
			for _, x := range f.Examples {
				p.row(blank, blank, blank, x)
			}
		}
	}})
}

func findingState(f audit.Finding) string {
	switch {
	case f.Err != "":
		return "UNKNOWN"
	case f.Violations > 0:
		return "BROKEN"
	}
	return "ok"
}

func verdictOf(found []audit.Finding) error {
	broken, unknown := 0, 0
	for _, f := range found {
		switch {
		case f.Err != "":
			unknown++
		case f.Violations > 0:
			broken++
		}
	}
	switch {
	case broken > 0:
		return fail(exitUnhealthy, "%d of %d invariants are broken", broken, len(found))
	case unknown > 0:
		return fail(exitError, "%d of %d invariants could not be asked", unknown, len(found))
	}
	return nil
}
