package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// EventExplanation is what became of one fact.
type EventExplanation struct {
	Fact FactRow `json:"fact"`
	// Served is the run that landed the first frame which holds the demand, nil
	// where none has, or retention took it.
	Served *RunRow `json:"served,omitempty"`
	// Matter is how the fact's matter stands; nil for a fact without one.
	Matter *Explanation `json:"matter,omitempty"`
	Now    []string     `json:"now"`
	Next   string       `json:"next"`
}

const servedSQL = runSQL + `
 WHERE firm_id = $1 AND matter_id = $2 AND generation >= $3 AND outcome = 'landed' ORDER BY generation LIMIT 1`

// ExplainEvent tells what became of one fact; ErrNotFound where the outbox has it
// not, or no longer.
func ExplainEvent(ctx context.Context, db pg.DB, event rail.UUID) (EventExplanation, error) {
	var e EventExplanation
	err := snapshot(ctx, db, 0, func(tx pgx.Tx) (err error) {
		if e.Fact, err = ReadFact(ctx, tx, event); err != nil {
			return err
		}
		if !e.Fact.Matter.IsZero() {
			m, err := Explain(ctx, tx, rail.Key{Firm: e.Fact.Firm, Matter: e.Fact.Matter}, 0)
			if err != nil {
				return err
			}
			e.Matter = &m
		}
		return e.served(ctx, tx)
	})
	if err != nil {
		return EventExplanation{}, fmt.Errorf("audit.ExplainEvent(%s): %w", event, err)
	}
	e.conclude()
	return e, nil
}

func (e *EventExplanation) served(ctx context.Context, tx pgx.Tx) error {
	if e.Fact.Verdict != "demanded" {
		return nil
	}
	r, err := one[RunRow](ctx, tx, servedSQL, e.Fact.Firm, e.Fact.Matter, e.Fact.Generation)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	e.Served = &r
	return err
}

func (e *EventExplanation) conclude() {
	f := e.Fact
	e.Now = append(e.Now, fmt.Sprintf("%s was recorded %s", f.Name, clock(f.RecordedAt)))
	if f.DecidedAt != nil {
		e.Now = append(e.Now, fmt.Sprintf("the trigger decided %s (%s later): %s", clock(*f.DecidedAt), rounded(f.DecidedAt.Sub(f.RecordedAt)), f.verdictText()))
	}
	switch {
	case f.Undecided && f.DecidedAt != nil:
		e.Next = "the trigger judges it again under today's rules"
	case f.Undecided:
		e.Next = "the trigger decides it with its next batch"
	case f.DecidedAt == nil:
		e.Next = "nothing by itself: it has no receipt and is on no list; see railctl check, undecided_facts"
	case f.Verdict != "demanded":
		e.Next = "nothing: the verdict stands until somebody has it judged again (railctl outbox redecide)"
	default:
		e.concludeDemand()
	}
}

func (e *EventExplanation) concludeDemand() {
	landed := int64(0)
	if e.Matter.Job != nil {
		landed = e.Matter.Job.Landed
	}
	switch {
	case e.Served != nil:
		e.Now = append(e.Now, fmt.Sprintf("served by generation %d, landed %s (%s after the fact) by run %s", e.Served.Generation,
			clock(*e.Served.FinishedAt), rounded(e.Served.FinishedAt.Sub(e.Fact.RecordedAt)), e.Served.RunID))
		e.Next = "nothing: the fact is in the Brief"
	case landed >= e.Fact.Generation:
		e.Now = append(e.Now, "served by a landing whose run retention has taken")
		e.Next = "nothing: the fact is in the Brief"
	case e.Matter.Job == nil:
		e.Next = "nothing: the matter was purged"
	default:
		e.Now = append(e.Now, e.Matter.Now...)
		e.Next = e.Matter.Next
	}
}
