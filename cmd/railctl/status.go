package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
)

func (a *app) statusVerb() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the whole ledger: what is owed, running, parked and paused", Args: cobra.NoArgs,
		RunE: a.withDB(func(ctx context.Context, s *session, _ []string) error {
			w := s.working("reading the ledger")
			st, err := audit.ReadStatus(ctx, s.pool)
			w.end()
			if err != nil {
				return err
			}
			st.Pauses, st.Firms = list(st.Pauses), list(st.Firms)
			return s.show(view{kind: "status", data: st, names: oldestName(st), table: func(p *page) { statusTable(p, st) }})
		}),
	}
}

// oldestName is the matter that has waited longest: the one to look at first.
func oldestName(st audit.Status) []string {
	if st.OldestOwedKey == nil {
		return nil
	}
	return []string{st.OldestOwedKey.String()}
}

func statusTable(p *page, st audit.Status) {
	p.now = st.At
	idle := fmt.Sprint(st.Jobs.Idle)
	if st.Jobs.IdleEstimated {
		idle = "about " + idle
	}
	p.row("Jobs", fmt.Sprintf("%s current, %d queued, %d running, %d parked", idle, st.Jobs.Queued, st.Jobs.Running, st.Jobs.Parked))
	if st.Jobs.Elsewhere > 0 {
		p.row("Elsewhere", st.Jobs.Elsewhere)
	}
	p.row("Oldest owed", st.OldestOwed, keyCell(st.OldestOwedKey != nil, st.OldestOwedKey))
	p.row("Oldest running", st.OldestRunning, keyCell(st.OldestRunningKey != nil, st.OldestRunningKey))
	p.row("Undecided facts", st.Undecided, st.OldestUndecided)
	if st.Pending != nil {
		p.row("Unpublished facts", *st.Pending, st.OldestPending)
	}
	p.row("Canary landed", st.CanaryLanded)
	p.row("Ledger", ledgerText(st))
	if st.Builder != nil {
		p.row("Builder", "AT FAULT: "+st.Builder.String())
	}
	firmsTable(p, st.Firms)
	pausesTable(p, st.Pauses)
}

// keyCell is empty where there is nothing, as the cell before it says so already.
func keyCell(there bool, k fmt.Stringer) string {
	if !there {
		return ""
	}
	return k.String()
}

func ledgerText(st audit.Status) string {
	s := fmt.Sprintf("epoch %d, schema %d, publishing %s", st.Ledger.Epoch, st.SchemaVersion, st.Ledger.Publishing)
	if st.LedgerChanged {
		s += "; NOT THE SERVER OF BEFORE: after a restore or a lossy failover run railctl epoch bump"
	}
	return s
}

func firmsTable(p *page, firms []audit.FirmStatus) {
	if len(firms) == 0 {
		return
	}
	p.line("")
	p.row("FIRM", "QUEUED", "RUNNING", "PARKED", "OLDEST OWED")
	for _, f := range firms {
		p.row(f.Firm, f.Queued, f.Running, f.Parked, f.OldestOwed)
	}
}

func pausesTable(p *page, pauses []audit.PauseRow) {
	if len(pauses) == 0 {
		return
	}
	p.line("")
	p.row("DISPATCH PAUSED", "SINCE", "BY", "BECAUSE")
	for _, x := range pauses {
		p.row(scope(x.Firm), x.PausedAt, x.PausedBy, x.Reason)
	}
}
