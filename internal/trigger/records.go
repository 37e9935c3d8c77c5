package trigger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// outcome is what became of one nudge; the outcomes add up to the nudges received.
type outcome string

const (
	outcomeDemanded  outcome = "demanded"
	outcomeIgnored   outcome = "ignored"
	outcomeGated     outcome = "gated"
	outcomeDuplicate outcome = "duplicate" // its fact was decided before
	outcomeMalformed outcome = "malformed"
	outcomeUnknown   outcome = "unknown"  // the ledger has no such fact: forged, or lost by a restore
	outcomeMismatch  outcome = "mismatch" // its ids are not those of the ledger's fact
	outcomeError     outcome = "error"    // not decided; it comes back
)

// record is one nudge in hand.
type record struct {
	message nudge.Message
	nudge   nudge.Nudge
	outcome outcome
}

// decide looks the facts up in the ledger and decides those that are undecided,
// all in one transaction. The ledger's firm, matter and name are used, never the
// message's. Outcomes are set once it has committed.
func (c *Consumer) decide(ctx context.Context, batch []*record) error {
	if len(batch) == 0 {
		return nil
	}
	var found map[rail.UUID]lookup
	var all []judged
	since := time.Now()
	err := pg.InTx(ctx, c.trigger.pool, func(tx pgx.Tx) (err error) {
		if err := settings(ctx, tx, len(batch)); err != nil {
			return err
		}
		found, err = c.lookUp(ctx, tx, events(batch))
		if err != nil {
			return err
		}
		all, err = c.decideFound(ctx, tx, batch, found)
		return err
	})
	if err != nil {
		return err
	}
	c.trigger.traced(ctx, "process nudges", rail.Handles, since, all)
	c.trigger.metrics.decided(all)
	for _, j := range all {
		c.trigger.reach.decided(j.fact.Seq, false)
	}
	for _, r := range batch {
		r.outcome = found[r.nudge.Event].outcomeOf(r.nudge)
		if l, ok := found[r.nudge.Event]; ok && r.outcome != outcomeMismatch {
			l.outcome = outcomeDuplicate // a second copy in the same batch
			found[r.nudge.Event] = l
		}
	}
	return nil
}

// decideAlone follows a batch that was refused: each nudge has its own try.
func (c *Consumer) decideAlone(ctx context.Context, batch []*record) error {
	var errs []error
	for _, r := range batch {
		errs = append(errs, c.decide(ctx, []*record{r}))
	}
	return errors.Join(errs...)
}

// lookup is what the ledger says of one event. fact is nil where only its receipt
// is left; outcome is empty while it is undecided and ours.
type lookup struct {
	fact    *outbox.Fact
	outcome outcome
}

// outcomeOf judges a nudge by it; the zero lookup is an event nobody knows.
func (l lookup) outcomeOf(n nudge.Nudge) outcome {
	switch {
	case l.fact == nil && l.outcome == "":
		return outcomeUnknown
	case l.fact != nil && !same(n, *l.fact):
		return outcomeMismatch
	}
	return l.outcome
}

func same(n nudge.Nudge, f outbox.Fact) bool {
	return n.Firm == f.Firm && n.Matter == f.Matter && n.Name == f.Name
}

func events(batch []*record) []rail.UUID {
	out := make([]rail.UUID, len(batch))
	for i, r := range batch {
		out[i] = r.nudge.Event
	}
	return out
}

const receiptsOfSQL = `SELECT event_id FROM ops.trigger_receipts WHERE event_id = ANY($1)`

// lookUp locks what is undecided first: whatever it does not get is then decided,
// or was never there.
func (c *Consumer) lookUp(ctx context.Context, tx pgx.Tx, ids []rail.UUID) (map[rail.UUID]lookup, error) {
	taken, err := outbox.TakeEvents(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	known, err := outbox.Facts(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, receiptsOfSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("trigger.lookUp: %w", err)
	}
	decided, err := pgx.CollectRows(rows, pgx.RowTo[rail.UUID])
	if err != nil {
		return nil, fmt.Errorf("trigger.lookUp: %w", err)
	}
	found := map[rail.UUID]lookup{}
	for _, id := range decided {
		found[id] = lookup{outcome: outcomeDuplicate}
	}
	for _, f := range known {
		found[f.Event] = lookup{fact: &f, outcome: outcomeDuplicate}
	}
	for _, f := range taken {
		found[f.Event] = lookup{fact: &f}
	}
	return found, nil
}

// decideFound decides the locked facts that at least one nudge names rightly.
func (c *Consumer) decideFound(ctx context.Context, tx pgx.Tx, batch []*record, found map[rail.UUID]lookup) ([]judged, error) {
	var facts []outbox.Fact
	asked := map[rail.UUID]bool{}
	for _, r := range batch {
		l := found[r.nudge.Event]
		if l.fact == nil || l.outcome != "" || asked[r.nudge.Event] || !same(r.nudge, *l.fact) {
			continue
		}
		asked[r.nudge.Event] = true
		facts = append(facts, *l.fact)
	}
	if len(facts) == 0 {
		return nil, nil
	}
	all, err := c.trigger.decide(ctx, tx, facts)
	if err != nil {
		return nil, err
	}
	for _, j := range all {
		found[j.fact.Event] = lookup{fact: &j.fact, outcome: outcomeOfVerdict(j.verdict)}
	}
	return all, nil
}

func outcomeOfVerdict(v Verdict) outcome {
	switch v {
	case Demanded:
		return outcomeDemanded
	case Ignored:
		return outcomeIgnored
	default:
		return outcomeGated
	}
}
