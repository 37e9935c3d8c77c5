package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
	"briefrail/internal/authority"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
)

const restoreHelp = `Look at a ledger that was restored, or failed over to a replica that may have lost
commits, and say the next step of docs/runbook.md. From the rows alone: is this the
server that the ledger knows, how far back does it end, which claims may daemons still
hold, what is undecided or owed. Where trigger.queue_url is set the dead letters are
looked at too, as dlq list does: a nudge whose fact is not there tells of a fact that
was lost (or is forged), until its matter is built again.

On another server than the ledger knows, every scope of the write fence is closed at
once, for both writers: a backup may be older than a crossing, and nothing here can
tell. Each stays closed until "authority open-restored" opens it under an epoch that was
never handed out.

A server that was started from a plain copy of its files, or from a snapshot of its
disk, keeps its identity: nothing here can tell that it went back (workers that lived
through it can: rail_ledger_changed). Then raise the epoch without being asked, from the
time of the copy.

Exit code 6 when a step is due; 1 when the dead letters could not be looked at.`

func (a *app) restoreVerb() *cobra.Command {
	var limit int
	cmd := &cobra.Command{Use: "restore-check", Short: "Say how far back a restored ledger ends, and the next step", Long: restoreHelp, Args: cobra.NoArgs}
	cmd.Flags().IntVar(&limit, "limit", 500, "look at so many dead letters at most")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, _ []string) error {
		if limit < 1 {
			return fail(exitUsage, "--limit %d: want 1 or more", limit)
		}
		return s.restoreCheck(ctx, limit)
	})
	return cmd
}

// restored is the answer. Lost is null where no queue is configured.
type restored struct {
	audit.Rewind
	Lost   []lostFact `json:"lost"`
	Unseen string     `json:"dead_letters_unseen,omitempty"` // why they could not be looked at
	Closed []string   `json:"closed_scopes"`                 // until each is opened under a later epoch
	Next   step       `json:"next"`
}

// lostFact is a fact that a dead nudge names and the ledger does not hold.
type lostFact struct {
	Event    rail.UUID `json:"event_id"`
	Matter   rail.Key  `json:"matter"`
	Name     string    `json:"event_name"`
	Sent     time.Time `json:"sent_at"`
	Answered bool      `json:"answered"` // its matter was demanded or built since
}

// step is what to do next. Due says that without it something stays lost or unsafe.
type step struct {
	Due     bool   `json:"due"`
	Why     string `json:"why"`
	Command string `json:"command,omitempty"`
}

func (s *session) restoreCheck(ctx context.Context, limit int) (err error) {
	defer s.working("reading the ledger").end()
	var r restored
	if r.Rewind, err = audit.ReadRewind(ctx, s.pool); err != nil {
		return err
	}
	if r.Closed, err = s.closeRestored(ctx, r.Changed); err != nil {
		return err
	}
	if s.cfg.Trigger.QueueURL != "" {
		if r.Lost, err = s.lostFacts(ctx, limit); err != nil {
			r.Unseen = oneLine(err.Error())
		}
		r.Lost = list(r.Lost)
	}
	r.Next = nextStep(r)
	if err := s.show(view{kind: "restore-check", data: r, names: r.lostMatters(), table: func(p *page) { restoreTable(p, r) }}); err != nil {
		return err
	}
	switch {
	case r.Next.Due:
		return fail(exitUnhealthy, "a step is due: %s", cmp.Or(r.Next.Command, r.Next.Why))
	case r.Unseen != "":
		return fail(exitError, "the dead letters could not be looked at")
	}
	return nil
}

// closeRestored closes every scope where the ledger came out of a backup, all in one
// transaction, and lists what a restore keeps closed: what has no deadline.
func (s *session) closeRestored(ctx context.Context, changed bool) ([]string, error) {
	if changed {
		act := jobs.Actor{Name: "railctl restore-check", Reason: "this is not the server that the ledger knows"}
		if _, err := s.controller(act).CloseRestored(ctx); err != nil {
			return nil, err
		}
	}
	fences, err := authority.Fences(ctx, s.pool)
	closed := []string{}
	for _, f := range fences {
		if f.State != "open" && f.Deadline == nil {
			closed = append(closed, f.Scope)
		}
	}
	return closed, err
}

// lostFacts are those of the dead letters whose facts the ledger has never known.
func (s *session) lostFacts(ctx context.Context, limit int) ([]lostFact, error) {
	d, err := s.deadLetters(ctx)
	if err != nil {
		return nil, err
	}
	letters, err := s.lookAt(ctx, d, limit)
	if err != nil {
		return nil, err
	}
	judged, err := s.judge(ctx, letters)
	if err != nil {
		return nil, err
	}
	var lost []lostFact
	var told []audit.Told
	for i, j := range judged {
		if j.Verdict == "unknown" {
			n := letters[i].Nudge
			k := rail.Key{Firm: n.Firm, Matter: n.Matter}
			lost = append(lost, lostFact{Event: n.Event, Matter: k, Name: j.Name, Sent: j.Sent})
			told = append(told, audit.Told{Key: k, At: j.Sent})
		}
	}
	answered, err := audit.Answered(ctx, s.pool, told)
	for i, l := range lost {
		lost[i].Answered = answered[l.Matter]
	}
	return lost, err
}

// lostMatters are those that nothing has been done about, each once.
func (r restored) lostMatters() (open []string) {
	seen := map[rail.Key]bool{}
	for _, l := range r.Lost {
		if !l.Answered && !seen[l.Matter] {
			open, seen[l.Matter] = append(open, l.Matter.String()), true
		}
	}
	return open
}

// nextStep is the first thing that is not done yet, in the runbook's order.
func nextStep(r restored) step {
	open := r.lostMatters()
	switch {
	case r.Changed && r.Since == nil:
		return step{true, "the ledger holds nothing, and is not on the server that it knows", bumpCommand(r.Turned)}
	case r.Changed:
		return step{true, fmt.Sprintf("this is not the server that the ledger knows: commits after %s may be missing", stamp(*r.Ends)), bumpCommand(*r.Since)}
	case len(open) > 0:
		return step{
			true, fmt.Sprintf("%d matter(s) lost a fact that a dead nudge names, unless it is forged", len(open)),
			"railctl matter demand " + open[0] + " --new --reason 'its fact was lost by the restore'",
		}
	case len(r.Closed) > 0:
		return step{
			true, fmt.Sprintf("%d scope(s) of the write fence stay closed: the backup may be older than a crossing", len(r.Closed)),
			"railctl authority open-restored " + r.Closed[0] + " --writer NAME --epoch N --reason 'why'",
		}
	case r.Undecided > 0:
		return step{false, fmt.Sprintf("%d fact(s) wait for the trigger", r.Undecided), "railctl outbox drain --until now --received"}
	case r.Orphans > 0, r.Behind > 0:
		return step{true, "rows do not fit each other: this was not restored from one instant", "railctl check"}
	case r.DispatchPaused:
		return step{false, "nothing is left to do but to check, and to let go", "railctl dispatch resume --all --reason 'restore is checked'"}
	}
	return step{false, "nothing is due", ""}
}

func bumpCommand(since time.Time) string {
	return "railctl epoch bump --since " + since.UTC().Format(time.RFC3339) + " --reason 'why'"
}

func restoreTable(p *page, r restored) {
	p.now = r.At
	p.row("Epoch", fmt.Sprintf("%d, since %s", r.Ledger.Epoch, p.when(r.Bumped)))
	p.row("Server", fmt.Sprintf("system %d timeline %d; the ledger knows %d timeline %d",
		r.Ledger.ServerIdentifier, r.Ledger.ServerTimeline, r.Ledger.SystemIdentifier, r.Ledger.Timeline))
	p.row(turnedName(r), r.Turned)
	p.row("Newest fact", r.Fact)
	p.row("Newest receipt", r.Receipt)
	p.row("Newest run", r.Run)
	p.row("Newest frame", r.Frame)
	p.row("Live claims", r.Live, r.OldestLive)
	p.row("Undecided facts", r.Undecided)
	p.row("Matters owed", r.Owed, r.OldestOwed)
	p.row("Matters behind their facts", r.Behind)
	p.row("Receipts without fact", r.Orphans)
	p.row("Scopes kept closed", len(r.Closed))
	p.row("Lost facts", lostText(r))
	lostTable(p, r.Lost)
	p.section("Next: %s", r.Next.Why)
	if r.Next.Command != "" {
		p.line("  %s", r.Next.Command)
	}
	if r.Changed && r.Since != nil {
		p.line("  It would have %d fact(s) judged again; an earlier time costs rebuilds and nothing else.", r.FactsSince)
	}
	if r.Changed && !r.DispatchPaused {
		p.line("  Before it, hold builds back: railctl dispatch pause --all --reason 'why'")
	}
}

func turnedName(r restored) string {
	if r.TimelineSeen {
		return "Timeline began"
	}
	return "Server started"
}

func lostText(r restored) string {
	switch {
	case r.Unseen != "":
		return "UNKNOWN: " + r.Unseen
	case r.Lost == nil:
		return "not looked for: trigger.queue_url is not set"
	}
	return fmt.Sprintf("%d, of which %d matter(s) wait for you", len(r.Lost), len(r.lostMatters()))
}

func lostTable(p *page, lost []lostFact) {
	if len(lost) == 0 {
		return
	}
	p.line("")
	p.row("MATTER", "EVENT", "NAME", "SENT", "ANSWERED")
	for _, l := range lost {
		p.row(l.Matter, l.Event, l.Name, l.Sent, l.Answered)
	}
}
