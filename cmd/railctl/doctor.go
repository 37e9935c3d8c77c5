package main

import (
	"context"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
	"briefrail/internal/config"
	"briefrail/migrations"
)

const doctorHelp = `Look at the database, and at how the rail lives in it: what would make it slow, unsafe
or silent, with what to do. Where nudges travel over AWS (trigger.source sqs, or a sink
in relay.sinks) it looks along their way too: bus, rule, target, the queue with its policy
and redrive, and both dead-letter queues. The settings it judges by are those that railctl sees: give
it the configuration of the workers. Exit code 6 when something failed; 1 when
something could not be looked at.`

func (a *app) doctorVerb() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Look for what makes the rail slow, unsafe or silent", Long: doctorHelp, Args: cobra.NoArgs,
		RunE: a.withDB(func(ctx context.Context, s *session, _ []string) error {
			defer s.working("looking").end()
			found, err := audit.Doctor(ctx, s.pool, doctorOptions(s.cfg))
			if err != nil {
				return err
			}
			found = append(found, diagnoseWay(ctx, s.cfg)...)
			if err := s.showDiagnoses(found); err != nil {
				return err
			}
			return prognosis(found)
		}),
	}
}

func doctorOptions(cfg *config.Config) audit.DoctorOptions {
	return audit.DoctorOptions{
		MinSchema: migrations.MinVersion, MaxSchema: migrations.MaxVersion, MaxConns: cfg.Database.MaxConns,
		Lease: cfg.Lease.Duration, Renew: cfg.Lease.Renew, BuilderTimeout: cfg.Builder.Timeout,
		OutboxRetention: cfg.Outbox.Retention, ReceiptsRetention: cfg.Receipts.Retention,
		TriggerGrace: cfg.Trigger.Grace, CanaryEvery: cfg.Canary.Every, DisabledFirms: cfg.Trigger.DisabledFirms,
	}
}

func (s *session) showDiagnoses(found []audit.Diagnosis) error {
	var bad []string
	for _, d := range found {
		if d.State != audit.OK {
			bad = append(bad, d.Check)
		}
	}
	return s.show(view{kind: "doctor", data: list(found), names: bad, table: func(p *page) {
		p.row("CHECK", "STATE", "FOUND")
		for _, d := range found {
			p.row(d.Check, string(d.State), d.Text)
			if d.Advice != "" && d.State != audit.OK {
				p.row(blank, blank, "→ "+d.Advice)
			}
		}
	}})
}

func prognosis(found []audit.Diagnosis) error {
	count := map[audit.State]int{}
	for _, d := range found {
		count[d.State]++
	}
	switch {
	case count[audit.Fail] > 0:
		return fail(exitUnhealthy, "%d of %d checks failed", count[audit.Fail], len(found))
	case count[audit.Unknown] > 0:
		return fail(exitError, "%d of %d checks could not be made", count[audit.Unknown], len(found))
	}
	return nil
}
