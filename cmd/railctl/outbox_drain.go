package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

const drainHelp = `Wait until everything committed before a point is published, and with --received also
decided. The point is now, a fact, or a time. Ends with 4 when parked facts are what
is left, as they wait for a person, and with 5 when --timeout runs out first. Where
publishing is not required nothing is published: ask with --received.`

func (a *app) outboxDrain() *cobra.Command {
	var untilText string
	var received bool
	var timeout time.Duration
	cmd := &cobra.Command{Use: "drain --until now|EVENT|TIME", Short: "Wait until facts are published", Long: drainHelp, Args: cobra.NoArgs}
	fs := cmd.Flags()
	fs.StringVar(&untilText, "until", "now", "the `point`: now, an EVENT, or a time or age (2h)")
	fs.BoolVar(&received, "received", false, "and until each has a receipt")
	fs.DurationVar(&timeout, "timeout", 10*time.Minute, "longest wait")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, _ []string) error {
		until, err := s.point(ctx, untilText)
		if err != nil {
			return err
		}
		l, err := outbox.ReadLedger(ctx, s.pool)
		if err != nil {
			return err
		}
		d := drained{Until: until, Received: received, published: l.Publishing == "required"}
		if !d.published && !received {
			return fail(exitUsage, "publishing is not required here, so nothing is published: use --received, or start a relay")
		}
		return s.drain(ctx, d, timeout)
	})
	return cmd
}

// point reads what --until names, by the database's clock.
func (s *session) point(ctx context.Context, text string) (time.Time, error) {
	now, err := outbox.Now(ctx, s.pool)
	if err != nil || text == "now" {
		return now, err
	}
	if event, err := rail.ParseUUID(text); err == nil {
		f, err := outbox.Get(ctx, s.pool, event)
		return f.RecordedAt, err
	}
	return instant("until", text, now)
}

// drained is how a drain ended.
type drained struct {
	Until    time.Time `json:"until"`
	Received bool      `json:"received"`
	outbox.Remaining
	Waited  string `json:"waited"`
	Timeout bool   `json:"timed_out"`

	published bool
}

// left is what still has to happen by itself, and what only a person can do.
func (d drained) left() (work, parked int64) {
	if d.published {
		work, parked = d.Unpublished-d.Parked, d.Parked
	}
	if d.Received {
		work += d.Undecided
	}
	return work, parked
}

func (s *session) drain(ctx context.Context, d drained, timeout time.Duration) error {
	start := time.Now()
	w := s.working("draining")
	err := s.awaitDrained(ctx, &d, start.Add(timeout), w)
	w.end()
	if err != nil {
		return err
	}
	d.Waited = time.Since(start).Round(time.Millisecond).String()
	err = s.show(view{kind: "outbox.drain", data: d, names: []string{d.Until.Format(time.RFC3339Nano)}, table: func(p *page) {
		p.line("up to %s: %d unpublished (of those %d parked), %d undecided, after %s", stamp(d.Until), d.Unpublished, d.Parked, d.Undecided, d.Waited)
	}})
	switch _, parked := d.left(); {
	case err != nil:
		return err
	case d.Timeout:
		return fail(exitTimeout, "not drained within %s", timeout)
	case parked > 0:
		return fail(exitRefused, "%d fact(s) are parked: railctl outbox parked", parked)
	}
	return nil
}

// awaitDrained looks until nothing is left but what a person has to do, or the time
// is up. A database that is away for a while is waited for as well.
func (s *session) awaitDrained(ctx context.Context, d *drained, end time.Time, w *work) error {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		r, err := outbox.CountRemaining(ctx, s.pool, d.Until)
		if err != nil && (!pg.IsTransient(err) || time.Now().After(end)) {
			return err
		}
		if err == nil {
			d.Remaining = r
			work, _ := d.left()
			if work == 0 {
				return nil
			}
			w.say("%d fact(s) to go", work)
		}
		if time.Now().After(end) {
			d.Timeout = true
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(pause, max(0, time.Until(end)))):
		}
	}
}
