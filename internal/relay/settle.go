package relay

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"briefrail/internal/outbox"
	"briefrail/internal/pg"
)

// settleMost is how many facts are written down in one statement at most.
const settleMost = 500

// settle writes down what became of facts. While one statement runs outcomes gather,
// so that under load a statement is of many facts and alone a fact waits for none.
// It outlasts a stop by what calls under way may take and by StopGrace.
func (r *Relay) settle(ctx context.Context, outcomes <-chan outcome) {
	ctx, cancel := outlast(ctx, r.opts.Timeout+r.opts.StopGrace)
	defer cancel()
	for o := range outcomes {
		r.write(ctx, gather(o, outcomes))
		select {
		case r.room <- struct{}{}:
		default:
		}
	}
}

// gather adds what lies ready.
func gather(o outcome, outcomes <-chan outcome) outcome {
	for len(o.taken)+len(o.refused)+len(o.waiting) < settleMost {
		select {
		case more, open := <-outcomes:
			if !open {
				return o
			}
			o.taken, o.refused = append(o.taken, more.taken...), append(o.refused, more.refused...)
			o.waiting = append(o.waiting, more.waiting...)
			o.unsent, o.lost = append(o.unsent, more.unsent...), append(o.lost, more.lost...)
		default:
			return o
		}
	}
	return o
}

func (r *Relay) write(ctx context.Context, o outcome) {
	r.hand.putBack(o.unsent)
	r.hand.drop(o.lost)
	if r.persist(ctx, "mark", func(ctx context.Context) error { return r.mark(ctx, o.taken) }) {
		r.hand.drop(o.taken)
	}
	if r.persist(ctx, "note", func(ctx context.Context) error { return r.note(ctx, o.refused) }) {
		r.hand.drop(plain(o.refused))
	}
	if r.persist(ctx, "wait", func(ctx context.Context) error { return r.wait(ctx, o.waiting) }) {
		r.hand.drop(plain(o.waiting))
	}
}

func plain(refused []outbox.Refused) []outbox.Pending {
	out := make([]outbox.Pending, len(refused))
	for i, f := range refused {
		out[i] = f.Pending
	}
	return out
}

// persist tries until the database has it: to send again what was taken would be
// worse than to wait, and the hand is bounded. Some time after a stop ctx ends; then
// the next owner sends again.
func (r *Relay) persist(ctx context.Context, what string, write func(context.Context) error) bool {
	for pause := minIdle; ; pause = min(2*pause, 5*time.Second) {
		err := write(ctx)
		if err == nil {
			return true
		}
		r.opts.Loops.Failed("relay", pg.Class(err))
		r.opts.Log.ErrorContext(ctx, "not written down what the sinks answered", slog.String("write", what), slog.String("err", pg.Text(err, 300)))
		if !sleep(ctx, pause/2+rand.N(pause/2)) {
			return false
		}
	}
}

// outlast is a context that ends a while after ctx does.
func outlast(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(d, func() { cancel(errors.New("stopped")) })
	})
	return out, func() { stop(); cancel(nil) }
}

func (r *Relay) mark(ctx context.Context, facts []outbox.Pending) error {
	marked, err := outbox.Mark(ctx, r.db, r.holder, facts)
	if err != nil {
		return err
	}
	for _, m := range marked {
		r.metrics.published.Inc()
		r.metrics.age.Observe(m.Age.Seconds())
	}
	if n := len(facts) - len(marked); n > 0 {
		r.metrics.unowned.Add(float64(n))
		r.opts.Log.WarnContext(ctx, "facts were sent whose bucket has moved on: their owner sends them again", slog.Int("facts", n))
	}
	return nil
}

func (r *Relay) note(ctx context.Context, facts []outbox.Refused) error {
	noted, parked, err := outbox.Fail(ctx, r.db, r.holder, facts, r.opts.Backoff)
	if err != nil || noted == 0 {
		return err
	}
	r.opts.Log.WarnContext(ctx, "facts were not taken", slog.Int("facts", noted), slog.Int("parked", parked),
		slog.String("outcome", facts[0].Code), slog.String("err", short(facts[0].Text)))
	for _, f := range facts {
		if f.Park {
			r.opts.Log.WarnContext(ctx, "fact parked", slog.String("event_id", f.Event.String()), slog.String("outcome", f.Code))
		}
	}
	return nil
}

// wait notes which sinks have taken facts that another keeps waiting; people were told
// when that one was paused.
func (r *Relay) wait(ctx context.Context, facts []outbox.Refused) error {
	_, _, err := outbox.Fail(ctx, r.db, r.holder, facts, r.opts.Backoff)
	return err
}

// short is a sink's text, fit for a log line.
func short(text string) string { return pg.Text(errors.New(text), 300) }
