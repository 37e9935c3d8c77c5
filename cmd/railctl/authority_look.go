package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/authority"
)

// newestChanges is how many changes status looks through: more than one for every
// scope, as the latest of each is what counts.
const newestChanges = 1000

// fenced is a fence and what its last change left behind.
type fenced struct {
	authority.Fence
	Phase        string     `json:"phase,omitempty"` // of the newest change of the scope
	Latest       string     `json:"latest_change,omitempty"`
	WindowEndsAt *time.Time `json:"window_ends_at,omitempty"` // while a way back is open
}

// stand is the answer of status.
type stand struct {
	Fences []fenced           `json:"fences"`
	Guards []authority.Guard  `json:"guards"`
	Holds  []authority.Hold   `json:"holds"`
	Others []authority.Writer `json:"writers"`
}

func (a *app) authorityStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Aliases: []string{"fences"}, Short: "List who writes each scope, open windows, guarded tables and holds", Args: cobra.NoArgs,
		RunE: a.withDB(func(ctx context.Context, s *session, _ []string) error { return s.authorityStatus(ctx) }),
	}
}

func (s *session) authorityStatus(ctx context.Context) error {
	out, err := readStand(ctx, s)
	if err != nil {
		return err
	}
	names := make([]string, len(out.Fences))
	for i, f := range out.Fences {
		names[i] = f.Scope
	}
	return s.show(view{kind: "authority.status", data: out, names: names, table: func(p *page) { standTable(p, out) }})
}

func readStand(ctx context.Context, s *session) (out stand, err error) {
	fences, err := authority.Fences(ctx, s.pool)
	if err != nil {
		return out, err
	}
	changes, err := authority.Changes(ctx, s.pool, "", newestChanges)
	if err != nil {
		return out, err
	}
	latest := map[string]authority.Change{}
	for _, ch := range changes {
		if _, ok := latest[ch.Scope]; !ok {
			latest[ch.Scope] = ch
		}
	}
	out.Fences = []fenced{}
	for _, f := range fences {
		out.Fences = append(out.Fences, withLatest(f, latest[f.Scope], s.now()))
	}
	if out.Guards, err = authority.Guards(ctx, s.pool); err != nil {
		return out, err
	}
	if out.Holds, err = authority.Holds(ctx, s.pool, false); err != nil {
		return out, err
	}
	out.Others, err = authority.Writers(ctx, s.pool)
	return out, err
}

func withLatest(f authority.Fence, ch authority.Change, now time.Time) fenced {
	out := fenced{Fence: f, Phase: ch.Phase}
	if !ch.ID.IsZero() {
		out.Latest = ch.ID.String()
	}
	if ch.Phase == "advanced" && ch.WindowEndsAt != nil && ch.WindowEndsAt.After(now) {
		out.WindowEndsAt = ch.WindowEndsAt
	}
	return out
}

func standTable(p *page, out stand) {
	if len(out.Fences) == 0 {
		p.line("no fence is configured: the rail writes everywhere")
	} else {
		p.row("SCOPE", "WRITER", "EPOCH", "STATE", "LAST CHANGE", "PHASE", "WINDOW ENDS")
		for _, f := range out.Fences {
			p.row(f.Scope, f.Writer, f.Epoch, f.State, f.Latest, f.Phase, f.WindowEndsAt)
		}
	}
	if len(out.Guards) > 0 {
		p.line("")
		p.row("GUARDED TABLE", "OF WRITER", "KEY", "SEQUENCE")
		for _, g := range out.Guards {
			p.row(g.Table, g.Writer, keyOrScope(g), g.Sequence)
		}
	}
	if len(out.Holds) > 0 {
		p.line("")
		holdsTable(p, out.Holds)
	}
}

func keyOrScope(g authority.Guard) string {
	if g.Key == "" {
		return g.Scope
	}
	return g.Key
}

func (a *app) authorityDoctor() *cobra.Command {
	return &cobra.Command{
		Use: "doctor SCOPE", Short: "Say where a scope stands, and the one next safe step", Args: cobra.ExactArgs(1),
		RunE: a.withDB(func(ctx context.Context, s *session, args []string) error {
			scope, err := fenceScope(args[0])
			if err != nil {
				return err
			}
			d, err := authority.Doctor(ctx, s.pool, scope)
			if err != nil {
				return err
			}
			return s.show(view{kind: "authority.doctor", data: d, names: []string{scope}, table: func(p *page) { diagnosisTable(p, d) }})
		}),
	}
}

func diagnosisTable(p *page, d authority.Diagnosis) {
	if d.Fence != nil {
		p.row("Scope", d.Scope)
		p.row("Writer", fmt.Sprintf("%s, epoch %d", d.Fence.Writer, d.Fence.Epoch))
		p.row("State", d.Fence.State)
		p.row("Closing until", d.Fence.Deadline)
	}
	if d.Change != nil {
		p.row("Change", d.Change.ID)
		p.row("Direction", fmt.Sprintf("%s, %s to %s", d.Change.Direction, d.Change.From, d.Change.To))
		p.row("Phase", d.Change.Phase)
	}
	for _, h := range d.Holds {
		p.row("Hold", fmt.Sprintf("%d: %s", h.ID, h.Watch))
	}
	p.section("Next: %s", d.Why)
	if d.Next != "" {
		p.line("  %s", d.Next)
	}
	if len(d.Bounds) > 0 {
		p.section("Roles of the old writer may stay in a transaction for ever, and hold closings up:")
	}
	for _, statement := range d.Bounds {
		p.line("  %s;", statement)
	}
}

func (a *app) authorityBlockers() *cobra.Command {
	return &cobra.Command{
		Use: "blockers", Short: "Sum who was in the way of closings, the worst first", Args: cobra.NoArgs,
		RunE: a.withDB(func(ctx context.Context, s *session, _ []string) error {
			sums, err := authority.Blockers(ctx, s.pool)
			if err != nil {
				return err
			}
			return s.show(listView("authority.blockers", sums, func(b authority.BlockerSum) string { return b.Who }, func(p *page) {
				if len(sums) == 0 {
					p.line("nothing was ever in the way")
					return
				}
				p.row("KIND", "WHO", "CLOSINGS", "OF THESE ABORTED")
				for _, b := range sums {
					p.row(b.Kind, b.Who, b.Closings, b.Aborted)
				}
			}))
		}),
	}
}

func (a *app) authorityChanges() *cobra.Command {
	var limit int
	cmd := &cobra.Command{Use: "changes [SCOPE]", Short: "List changes, the latest first", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, args []string) (err error) {
		scope := ""
		if len(args) == 1 {
			if scope, err = fenceScope(args[0]); err != nil {
				return err
			}
		}
		if limit < 1 {
			return fail(exitUsage, "--limit %d: want 1 or more", limit)
		}
		changes, err := authority.Changes(ctx, s.pool, scope, limit)
		if err != nil {
			return err
		}
		return s.show(listView("authority.changes", changes, func(ch authority.Change) string { return ch.ID.String() }, func(p *page) { changesTable(p, changes) }))
	})
	return cmd
}

func changesTable(p *page, changes []authority.Change) {
	p.row("CHANGE", "SCOPE", "DIRECTION", "FROM", "TO", "PHASE", "PAUSE", "PLANNED")
	for _, ch := range changes {
		p.row(ch.ID, ch.Scope, ch.Direction, ch.From, ch.To, ch.Phase, pauseText(ch.MeasuredPause), ch.PlannedAt)
	}
}

// pauseText is precise where it is short: a pause is measured in milliseconds.
func pauseText(d *time.Duration) string {
	if d == nil {
		return ""
	}
	if *d < time.Second {
		return fmt.Sprintf("%.1fms", float64(*d)/float64(time.Millisecond))
	}
	return span(*d)
}

// told is a change with its verifications and, while a way back is open, whether it
// could be taken.
type told struct {
	authority.Change
	Reports    []authority.Report    `json:"reports"`
	Conditions []authority.Condition `json:"conditions,omitempty"`
}

func (a *app) authorityShow() *cobra.Command {
	return &cobra.Command{
		Use: "show CHANGE", Short: "Show a change whole: phases, pause, report, blockers, the way back", Args: cobra.ExactArgs(1),
		RunE: a.withDB(func(ctx context.Context, s *session, args []string) error {
			id, err := changeID(args[0])
			if err != nil {
				return err
			}
			var out told
			if out.Change, err = authority.ChangeOf(ctx, s.pool, id); err != nil {
				return err
			}
			if out.Reports, err = authority.Reports(ctx, s.pool, id); err != nil {
				return err
			}
			if out.Phase == "advanced" {
				if out.Conditions, err = authority.Conditions(ctx, s.pool, id); err != nil {
					return err
				}
			}
			return s.show(view{kind: "authority.show", data: out, names: []string{id.String()}, table: func(p *page) { toldTable(p, out) }})
		}),
	}
}

func toldTable(p *page, out told) {
	changeTable(p, out.Change)
	for _, r := range out.Reports {
		p.section("Report %d, %s: %s, %s", r.ID, p.when(r.MadeAt), passed(r), count(r.Matters, "matter"))
		findingsTable(p, r.Findings)
	}
	conditionsTable(p, out.Conditions)
}

func passed(r authority.Report) string {
	if r.Passed {
		return fmt.Sprintf("passed, digest %x", r.Digest[:min(6, len(r.Digest))])
	}
	return count(len(r.Findings), "finding")
}

func findingsTable(p *page, findings []authority.Finding) {
	if len(findings) == 0 {
		return
	}
	p.row("CHECK", "FIRM", "MATTER", "DETAIL")
	for _, f := range findings {
		p.row(f.Check, f.Firm, f.Matter, f.Detail)
	}
}

func conditionsTable(p *page, conditions []authority.Condition) {
	if len(conditions) == 0 {
		return
	}
	p.section("The way back")
	p.row("CONDITION", "MET", "DETAIL")
	for _, c := range conditions {
		p.row(c.Name, c.Met, c.Detail)
	}
}

// changeTable tells a change in the order in which it went.
func changeTable(p *page, ch authority.Change) {
	p.row("Change", ch.ID)
	p.row("Scope", fmt.Sprintf("%s, cohort %s", ch.Scope, ch.Cohort))
	p.row("Direction", fmt.Sprintf("%s, %s to %s", ch.Direction, ch.From, ch.To))
	p.row("Phase", ch.Phase)
	p.row("Planned", ch.PlannedAt)
	for _, at := range []struct {
		name string
		when *time.Time
	}{{"Closed", ch.ClosedAt}, {"Drained", ch.DrainedAt}, {"Sealed", ch.SealedAt}, {"Verified", ch.VerifiedAt}, {"Advanced", ch.AdvancedAt}, {"Aborted", ch.AbortedAt}} {
		if at.when != nil {
			p.row(at.name, stampMilli(*at.when)+since0(ch.ClosedAt, at.when))
		}
	}
	if ch.FinalSequence != nil {
		p.row("Final sequence", *ch.FinalSequence)
	}
	p.row("Pause", fmt.Sprintf("predicted %s, measured %s", orDash(pauseText(ch.PredictedPause)), orDash(pauseText(ch.MeasuredPause))))
	if ch.WindowEndsAt != nil {
		p.row("Window ends", ch.WindowEndsAt)
	}
	blockersTable(p, ch.Blockers)
}

// since0 is how long after the closing something was.
func since0(closed, at *time.Time) string {
	if closed == nil || !at.After(*closed) {
		return ""
	}
	d := at.Sub(*closed)
	return "  +" + pauseText(&d)
}

func blockersTable(p *page, blockers []authority.Blocker) {
	if len(blockers) == 0 {
		return
	}
	p.section("In the way")
	p.row("KIND", "LOCK", "WHO", "PID", "STATE", "SINCE")
	for _, b := range blockers {
		p.row(b.Kind, b.Lock, cmp.Or(b.GID, b.Application, b.Run, b.Role), b.PID, b.State, b.Since)
	}
}
