package audit

import (
	"fmt"
	"time"

	"briefrail/internal/rail"
)

// clock prints an instant of the database.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// away says how far an instant is from now.
func away(t, now time.Time) string {
	d := t.Sub(now)
	if d < 0 {
		return rounded(-d) + " ago"
	}
	return "in " + rounded(d)
}

// rounded keeps two figures or so: nobody acts on the milliseconds of an hour.
func rounded(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return units(d)
}

// units tells a minute or longer without what nobody acts on: 30d, 1d2h, 2h5m, 3m5s.
func units(d time.Duration) string {
	switch {
	case d >= day:
		d = d.Round(time.Hour)
	case d >= time.Hour:
		d = d.Round(time.Minute)
	default:
		d = d.Round(time.Second)
	}
	text := ""
	for _, u := range []struct {
		size time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / u.size; n > 0 {
			text += fmt.Sprintf("%d%s", n, u.name)
		}
		d %= u.size
	}
	return text
}

const day = 24 * time.Hour

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func scopeOf(p PauseRow) string {
	if p.Firm.IsZero() {
		return "all"
	}
	return p.Firm.String()
}

func pauseText(p PauseRow) string {
	scope := "all firms"
	if !p.Firm.IsZero() {
		scope = "this firm"
	}
	return fmt.Sprintf("dispatch of %s paused by %s: %s", scope, p.PausedBy, p.Reason)
}

// entries are the fact and what the trigger made of it.
func (f FactRow) entries() []Entry {
	out := []Entry{{At: f.RecordedAt, Kind: KindFact, Event: f.Event, Text: "fact " + f.Name}}
	if f.DecidedAt == nil {
		return out
	}
	return append(out, Entry{
		At: *f.DecidedAt, Kind: KindReceipt, Event: f.Event, Generation: f.Generation,
		Outcome: f.Verdict, Text: fmt.Sprintf("%s: %s", f.Name, f.verdictText()),
	})
}

func (f FactRow) verdictText() string {
	switch f.Verdict {
	case "demanded":
		return fmt.Sprintf("became demand, part of generation %d", f.Generation)
	case "ignored":
		if rail.OwnFact(rail.EventName(f.Name)) {
			return "ignored, as the rail's own facts never trigger"
		}
		if f.Matter.IsZero() {
			return "ignored, as it is a fact of the firm alone: only facts of a matter become demand"
		}
		return "ignored: no rule of the trigger names " + f.Name
	default:
		return "refused, " + f.Verdict
	}
}

// entries are the claim, the end, and a zombie's late write.
func (r RunRow) entries() []Entry {
	of := Entry{Run: r.RunID, Generation: r.Generation}
	claim := of
	claim.At, claim.Kind, claim.Text = r.StartedAt, KindClaim, r.claimText()
	out := []Entry{claim}
	if r.FinishedAt != nil {
		end := of
		end.At, end.Kind, end.Outcome, end.Text = *r.FinishedAt, KindEnd, r.Outcome, r.endText()
		out = append(out, end)
	}
	if r.LateWriteAt != nil {
		late := of
		late.At, late.Kind = *r.LateWriteAt, KindLateWrite
		late.Text = fmt.Sprintf("%s woke and tried to write with token %d: refused, as its run had ended as %s; nothing was written",
			r.Worker, r.Generation, r.Outcome)
		out = append(out, late)
	}
	return out
}

func (r RunRow) claimText() string {
	s := fmt.Sprintf("%s claimed token %d, attempt %d, for %s", r.Worker, r.Generation, r.Attempt, plural(r.Demands, "demand", "demands"))
	if !r.RetryOf.IsZero() {
		s += ", after run " + r.RetryOf.String()
	}
	return s
}

func (r RunRow) endText() string {
	took := rounded(r.FinishedAt.Sub(r.StartedAt))
	s := fmt.Sprintf("token %d %s after %s", r.Generation, endVerb(r.Outcome), took)
	switch {
	case r.ErrorKind != "" && r.ErrorText != "":
		s += fmt.Sprintf(": %s, %s", r.ErrorKind, r.ErrorText)
	case r.ErrorKind != "":
		s += ": " + r.ErrorKind
	}
	return s
}

func endVerb(outcome string) string {
	switch outcome {
	case "expired":
		return "lost its lease"
	case "fenced":
		return "was fenced"
	case "released":
		return "was handed back without charge"
	case "cancelled":
		return "was cancelled"
	default: // landed, failed
		return outcome
	}
}

func (f FrameRow) text() string {
	return fmt.Sprintf("frame of generation %d by builder %s, schema %s, digest %.12s", f.Generation, f.BuilderVersion, f.SchemaVersion, f.Digest)
}
