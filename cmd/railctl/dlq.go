package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/audit"
	"briefrail/internal/nudge"
	"briefrail/internal/rail"
)

const dlqHelp = `Look at the nudges that nobody could handle, and send them back. The queue is that of
trigger.queue_url; its dead-letter queue is found by its redrive policy. Credentials and
region come from where the AWS SDK looks for them. A lost nudge loses no Brief: the
workers sweep the outbox.`

func (a *app) dlqVerbs() *cobra.Command {
	cmd := group("dlq", "Look at dead nudges, and send them back", a.dlqList(), a.dlqRedrive())
	cmd.Long = dlqHelp
	return cmd
}

// deadLetters finds the dead-letter queue of the queue that is configured.
func (s *session) deadLetters(ctx context.Context) (*nudge.DeadLetters, error) {
	if s.cfg.Trigger.QueueURL == "" {
		return nil, fail(exitUsage, "trigger.queue_url is not set (RAIL_TRIGGER_QUEUE_URL): whose dead letters?")
	}
	q, err := nudge.NewQueue(ctx, nudge.QueueOptions{Queue: s.cfg.Trigger.QueueURL, Region: s.cfg.AWS.Region, Endpoint: s.cfg.AWS.Endpoint})
	if err != nil {
		return nil, fail(exitUsage, "%w", err)
	}
	d, err := q.DeadLetters(ctx)
	if errors.Is(err, nudge.ErrNoDeadLetters) {
		return nil, fail(exitNotFound, "%s: %w", s.cfg.Trigger.QueueURL, err)
	}
	return d, err
}

const dlqListHelp = `Look at dead nudges and leave them where they are. Verdict is what the ledger says of
one: malformed (no nudge at all, with the reason), unknown (the ledger has no such fact:
forged, or lost by a restore), mismatch (its ids are not those of the fact), undecided,
or what the trigger decided. Of a malformed body its shape is shown, never its text.

SQS hands out samples: fewer than there are may be listed, and each look counts as a
receive.`

// deadLetter is one message of a dead-letter queue. Its ids are as the nudge has them;
// they and the name are empty where it is none.
type deadLetter struct {
	Message  string     `json:"message"`
	Verdict  string     `json:"verdict"` // malformed, unknown, mismatch, undecided, or the receipt's
	Reason   string     `json:"reason,omitempty"`
	Event    *rail.UUID `json:"event_id,omitempty"`
	Matter   *rail.Key  `json:"matter,omitempty"`
	Name     string     `json:"event_name,omitempty"`
	Sent     time.Time  `json:"sent_at"`
	Receives int        `json:"receives"`
	Preview  string     `json:"preview,omitempty"` // letters and digits replaced
	Hash     string     `json:"hash,omitempty"`    // of the body
}

func (a *app) dlqList() *cobra.Command {
	var limit int
	cmd := &cobra.Command{Use: "list", Short: "Look at dead nudges and leave them there", Long: dlqListHelp, Args: cobra.NoArgs}
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, _ []string) error {
		if limit < 1 {
			return fail(exitUsage, "--limit %d: want 1 or more", limit)
		}
		d, err := s.deadLetters(ctx)
		if err != nil {
			return err
		}
		letters, err := s.lookAt(ctx, d, limit)
		if err != nil {
			return err
		}
		judged, err := s.judge(ctx, letters)
		if err != nil {
			return err
		}
		return s.showLetters(judged)
	})
	return cmd
}

// lookAt reads letters and gives them back, also those that were read before an error.
func (s *session) lookAt(ctx context.Context, d *nudge.DeadLetters, limit int) ([]nudge.Letter, error) {
	letters, err := d.List(ctx, limit)
	failed, back := d.Release(context.WithoutCancel(ctx), letters) // bounded by the deadline of its calls
	if failed > 0 || back != nil {
		s.say("railctl: not all letters could be given back at once: they stay out of sight for 15 s")
	}
	return letters, err
}

// judge asks the ledger about all letters at once.
func (s *session) judge(ctx context.Context, letters []nudge.Letter) ([]deadLetter, error) {
	var events []rail.UUID
	for _, l := range letters {
		if l.Reason == "" {
			events = append(events, l.Nudge.Event)
		}
	}
	held, err := audit.ReadHeld(ctx, s.pool, events)
	if err != nil {
		return nil, err
	}
	out := make([]deadLetter, len(letters))
	for i, l := range letters {
		out[i] = judged(l, held)
	}
	return out, nil
}

func judged(l nudge.Letter, held map[rail.UUID]audit.Held) deadLetter {
	out := deadLetter{Message: l.ID, Sent: l.Sent, Receives: l.ReceiveCount}
	var fault *nudge.DecodeError
	if _, err := nudge.Decode(l.Body); errors.As(err, &fault) {
		out.Verdict, out.Reason, out.Preview, out.Hash = "malformed", string(fault.Reason), fault.Preview, fault.Hash
		return out
	}
	out.Event, out.Matter, out.Name = &l.Nudge.Event, &rail.Key{Firm: l.Nudge.Firm, Matter: l.Nudge.Matter}, string(l.Nudge.Name)
	h, known := held[l.Nudge.Event]
	switch {
	case !known:
		out.Verdict = "unknown"
	case h.Name != "" && (h.Firm != l.Nudge.Firm || h.Matter != l.Nudge.Matter || h.Name != out.Name):
		out.Verdict = "mismatch"
	default:
		out.Verdict = cmp.Or(h.Verdict, "undecided")
	}
	return out
}

func (s *session) showLetters(letters []deadLetter) error {
	return s.show(listView("dlq.list", letters, func(l deadLetter) string { return l.Message }, func(p *page) {
		p.row("MESSAGE", "VERDICT", "SENT", "RECEIVES", "EVENT", "MATTER", "NAME", "PREVIEW")
		for _, l := range letters {
			verdict := l.Verdict
			if l.Reason != "" {
				verdict += ": " + l.Reason
			}
			p.row(l.Message, verdict, l.Sent, l.Receives, eventText(l.Event), keyCell(l.Matter != nil, l.Matter), l.Name, p.brief(l.Preview))
		}
	}))
}

func eventText(event *rail.UUID) string {
	if event == nil {
		return ""
	}
	return event.String()
}
