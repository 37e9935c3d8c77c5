package trigger

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
)

// Source is a queue that brings nudges; *nudge.Queue is one. It is never the
// truth: the outbox is swept beside it, whatever it drops, doubles or makes up.
type Source interface {
	Receive(ctx context.Context, max int, wait time.Duration) ([]nudge.Message, error)
	Delete(ctx context.Context, messages []nudge.Message) (failed int, err error)
	Release(ctx context.Context, messages []nudge.Message) (failed int, err error)
}

// Consumer decides the facts that a queue's nudges name. A message is settled once
// the ledger holds the decision, never after the build.
type Consumer struct {
	trigger   *Trigger
	source    Source
	receivers int
	wait      time.Duration

	mu      sync.Mutex
	trouble error // of the last turn of any receiver
}

// Trouble is why the last turn of a receiver failed; nil while all is well.
func (c *Consumer) Trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}

func (c *Consumer) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = err
}

const (
	perReceive = 10 // messages a poll, AWS's most
	// settleTime bounds what is done with the messages of one poll; it outlives a
	// stop, so that nothing received is left invisible.
	settleTime = 20 * time.Second
	// lastPoll is how long a stop leaves the poll under way: where messages are it ends
	// at once with them, and one that is still empty then would only hold up the stop.
	lastPoll = time.Second
)

// NewConsumer makes a Consumer of so many receivers, each polling for up to wait
// (whole seconds, at most 20); it starts nothing.
func (t *Trigger) NewConsumer(source Source, receivers int, wait time.Duration) *Consumer {
	return &Consumer{trigger: t, source: source, receivers: receivers, wait: wait}
}

// Run receives until ctx ends, and returns ctx's error. A stop starts no further
// poll, gives those under way a moment to end, and handles what they bring. What the
// queue hands to a poll that was cut off comes back after its visibility, and its fact
// is decided by another's sweep before.
func (c *Consumer) Run(ctx context.Context) error {
	var receivers errgroup.Group
	for range c.receivers {
		receivers.Go(func() error { return c.receive(ctx) })
	}
	return receivers.Wait()
}

func (c *Consumer) receive(ctx context.Context) error {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		err := c.once(ctx)
		c.note(err)
		if err == nil {
			pause = 0
			c.trigger.opts.Loops.Progress("consume")
			continue
		}
		pause = min(max(2*pause, errorPause), 30*time.Second)
		c.trigger.opts.Loops.Failed("consume", pg.Class(err))
		c.trigger.opts.Log.ErrorContext(ctx, "nudges not handled", slog.String("err", pg.Text(err, 300)))
		c.restUntilLedger(ctx, pause)
	}
	return ctx.Err()
}

// restUntilLedger waits, and goes on waiting while the ledger is away: a message
// received then can only come back, one receive nearer to the dead letters.
func (c *Consumer) restUntilLedger(ctx context.Context, pause time.Duration) {
	for ctx.Err() == nil {
		sleep(ctx, pause)
		if _, err := outbox.Waiting(ctx, c.trigger.pool, 0, 0); err == nil {
			return
		}
	}
}

// once is one poll and what follows from it.
func (c *Consumer) once(ctx context.Context) error {
	messages, err := c.poll(ctx)
	if err != nil || len(messages) == 0 {
		return err
	}
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	return c.handle(work, messages)
}

// poll outlives a stop for a moment: cutting it off at once would hide messages that
// are already on their way for a whole visibility, one receive nearer to the dead
// letters.
func (c *Consumer) poll(ctx context.Context) ([]nudge.Message, error) {
	poll, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.wait+15*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, func() { sleep(poll, lastPoll); cancel() })()
	messages, err := c.source.Receive(poll, perReceive, c.wait)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil, nil // empty until the stop, and so no failure
	}
	return messages, err
}

// handle decides one batch and settles its messages: what is decided is deleted,
// what cannot be read goes back at once and so soon to the dead letters, what the
// ledger does not know is left for them, and what failed is handed back.
func (c *Consumer) handle(ctx context.Context, messages []nudge.Message) error {
	c.trigger.metrics.received.Add(float64(len(messages)))
	batch, malformed := c.decode(ctx, messages)
	err := c.decide(ctx, batch)
	if len(batch) > 1 && ofSomeFact(err) {
		err = c.decideAlone(ctx, batch)
	}
	var done, back []nudge.Message
	for _, r := range batch {
		c.trigger.metrics.nudge(r.outcome)
		switch r.outcome {
		case outcomeError:
			back = append(back, r.message)
		case outcomeUnknown, outcomeMismatch:
			c.suspicious(ctx, r)
		default:
			done = append(done, r.message)
		}
	}
	return errors.Join(err, c.settle(ctx, done, append(back, malformed...)))
}

// settle deletes and releases. A deletion that fails is a counted no-op: the
// message returns and is a duplicate.
func (c *Consumer) settle(ctx context.Context, done, back []nudge.Message) error {
	var errs []error
	if len(done) > 0 {
		failed, err := c.source.Delete(ctx, done)
		c.trigger.metrics.deleteFailures.Add(float64(failed))
		errs = append(errs, err)
	}
	if len(back) > 0 {
		_, err := c.source.Release(ctx, back)
		errs = append(errs, err)
	}
	if len(done) > 0 && c.trigger.opts.Wake != nil {
		c.trigger.opts.Wake()
	}
	return errors.Join(errs...)
}

// decode splits a poll into nudges and what is none; each of those is logged once,
// by hash and a masked preview.
func (c *Consumer) decode(ctx context.Context, messages []nudge.Message) (batch []*record, malformed []nudge.Message) {
	for _, m := range messages {
		n, err := nudge.Decode(m.Body)
		if err == nil {
			batch = append(batch, &record{message: m, nudge: n, outcome: outcomeError})
			continue
		}
		c.trigger.metrics.nudge(outcomeMalformed)
		malformed = append(malformed, m)
		var bad *nudge.DecodeError
		if errors.As(err, &bad) && m.ReceiveCount <= 1 {
			c.trigger.opts.Log.WarnContext(ctx, "malformed nudge", slog.String("message_id", m.ID),
				slog.String("reason", string(bad.Reason)), slog.String("hash", bad.Hash), slog.String("preview", bad.Preview))
		}
	}
	return batch, malformed
}

// suspicious logs a nudge that the ledger contradicts. After a restore these are
// the only evidence of what was lost, so they are never deleted.
func (c *Consumer) suspicious(ctx context.Context, r *record) {
	c.trigger.opts.Log.ErrorContext(ctx, "nudge left for the dead letters", slog.String("outcome", string(r.outcome)),
		slog.String("message_id", r.message.ID), slog.String("event_id", r.nudge.Event.String()),
		slog.String("firm_id", r.nudge.Firm.String()), slog.String("matter_id", r.nudge.Matter.String()))
}
