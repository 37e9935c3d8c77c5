package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
	"briefrail/internal/config"
	"briefrail/internal/rail"
)

const explainHelp = `Tell from rows alone why a Brief is as it is: its facts and their verdicts, claims,
runs, refusals and frames in the order in which they happened, and what happens next
and when. Or what became of one fact, given its event id.`

func (a *app) explainVerb() *cobra.Command {
	var limit int
	cmd := &cobra.Command{Use: "explain MATTER|EVENT", Short: "Tell why a Brief is as it is, and what happens next", Long: explainHelp, Args: cobra.ExactArgs(1)}
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many entries, the latest")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, args []string) error {
		k, isMatter, err := s.matterOrEvent(ctx, args[0])
		switch {
		case err != nil:
			return err
		case isMatter:
			return s.explainMatter(ctx, k, limit)
		}
		return s.explainEvent(ctx, args[0])
	})
	return cmd
}

// matterOrEvent reports whether a UUID alone names a matter. The fact is looked for
// first because it has an index; one that bears the id of its own matter means the
// matter.
func (s *session) matterOrEvent(ctx context.Context, text string) (k rail.Key, isMatter bool, err error) {
	id, err := rail.ParseUUID(text)
	if err != nil {
		k, err = s.matter(ctx, text)
		return k, true, err
	}
	f, err := audit.ReadFact(ctx, s.pool, id)
	switch {
	case err == nil && f.Matter == id:
		return rail.Key{Firm: f.Firm, Matter: f.Matter}, true, nil
	case err == nil:
		return k, false, nil
	case !errors.Is(err, audit.ErrNotFound):
		return k, false, err
	}
	if k, err = s.matter(ctx, text); isNotFound(err) {
		err = fail(exitNotFound, "neither a matter nor a fact has the id %s (retention may have taken the fact)", id)
	}
	return k, true, err
}

func (s *session) explainMatter(ctx context.Context, k rail.Key, limit int) error {
	e, err := audit.Explain(ctx, s.pool, k, limit)
	if err != nil {
		return err
	}
	if e.Job == nil && len(e.Timeline) == 0 {
		return s.unknown(ctx, k)
	}
	e.Timeline = list(e.Timeline)
	return s.show(view{kind: "explain.matter", data: e, names: []string{k.String()}, table: func(p *page) { explainTable(p, e) }})
}

func explainTable(p *page, e audit.Explanation) {
	p.now = e.At
	p.row("Matter", e.Key)
	p.row("Brief", headline(p, e))
	if e.Job != nil {
		p.row("State", e.Job.Status)
		p.row("Token", tokenText(e.Job))
	}
	p.section("Now:")
	for _, n := range e.Now {
		p.line("  %s", n)
	}
	p.section("What happened:")
	if e.Truncated {
		p.line("  … older entries left out (--limit)")
	}
	for _, t := range e.Timeline {
		kind := strings.ReplaceAll(string(t.Kind), "_", " ")
		p.row("  "+stampMilli(t.At), age(e.At.Sub(t.At)), kind, strings.TrimPrefix(t.Text, kind+" "))
	}
	p.section("Next: %s", e.Next)
}

func headline(p *page, e audit.Explanation) string {
	if e.Job == nil {
		return "unknown to the ledger"
	}
	return briefState(p, *e.Job, e.Current != nil)
}

// tokenText is the token being served, or the one served last.
func tokenText(j *audit.JobRow) string {
	t := rail.Token{Generation: j.Claimed, Run: j.RunID}
	switch {
	case !j.RunID.IsZero():
		return t.String()
	case j.Claimed == 0:
		return "none yet"
	}
	return strings.TrimSuffix(t.String(), "@"+j.RunID.String()) + ", no live claim"
}

func (s *session) explainEvent(ctx context.Context, text string) error {
	id, err := rail.ParseUUID(text)
	if err != nil {
		return fail(exitUsage, "%w", err)
	}
	e, err := audit.ExplainEvent(ctx, s.pool, id)
	if err != nil {
		return err
	}
	if hint := s.ruleHint(e.Fact); hint != "" {
		e.Now = append(e.Now, hint)
	}
	return s.show(view{kind: "explain.event", data: e, names: []string{id.String()}, table: func(p *page) { eventTable(p, e) }})
}

// ruleHint names the rule that a producer with an ignored fact may have meant.
func (s *session) ruleHint(f audit.FactRow) string {
	if f.Verdict != "ignored" || f.Matter.IsZero() || rail.OwnFact(rail.EventName(f.Name)) {
		return ""
	}
	rules := make([]string, len(s.cfg.Trigger.Rules))
	for i, r := range s.cfg.Trigger.Rules {
		rules[i] = string(r.Name)
	}
	near := config.Nearest(f.Name, rules)
	if len(near) == 0 || slices.Contains(near, f.Name) {
		return ""
	}
	return fmt.Sprintf("trigger.rules, as railctl reads them, name %s: did the producer mean that?", strings.Join(near, ", "))
}

func eventTable(p *page, e audit.EventExplanation) {
	f := e.Fact
	p.row("Fact", f.Event)
	p.row("Name", f.Name)
	p.row("Firm", f.Firm)
	p.row("Matter", f.Matter)
	p.row("Occurred", f.OccurredAt)
	p.row("Recorded", f.RecordedAt)
	p.row("Verdict", verdictText(f))
	p.section("What happened:")
	for _, n := range e.Now {
		p.line("  %s", n)
	}
	p.section("Next: %s", e.Next)
}
