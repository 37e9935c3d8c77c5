package authority

import (
	"context"
	"errors"
	"fmt"

	"briefrail/internal/rail"
)

// ErrBlocked means that a verification found what must not cross.
var ErrBlocked = errors.New("the verification found what must not cross")

// Cross takes a change from wherever it is to its end: what Close, Drain, Seal, Verify
// and Advance do one by one. A failed verification gives the scope back at once. Ending
// aborted is not an error: the change says so, and who was in the way.
//
// It may be stopped or killed between any two statements; the next call with the same
// id goes on, unless the watchdog of a daemon was faster.
func (c Controller) Cross(ctx context.Context, change rail.UUID, heads Heads) (Change, error) {
	ch, err := ChangeOf(ctx, c.DB, change)
	for err == nil && ch.Outcome == "" {
		before := ch.Phase
		if ch, err = c.next(ctx, ch, heads); err != nil {
			break
		}
		if ch.Phase == before {
			// lock B was not to be had, or the deadline has passed
			ch, err = c.overdue(ctx, ch)
		}
	}
	return ch, err
}

// next takes the one step that a phase allows.
func (c Controller) next(ctx context.Context, ch Change, heads Heads) (Change, error) {
	switch ch.Phase {
	case "shadowed":
		return c.Close(ctx, ch.ID)
	case "closing":
		return c.Drain(ctx, ch.ID)
	case "drained":
		return c.Seal(ctx, ch.ID)
	case "sealed":
		return c.verified(ctx, ch, heads)
	case "verified":
		return c.Advance(ctx, ch.ID)
	}
	return ch, fmt.Errorf("authority.Cross: change %s is %s: it crosses once its shadow was compared", ch.ID, ch.Phase)
}

// verified gives the scope back where the report did not pass: nothing that could be
// mended is worth a pause.
func (c Controller) verified(ctx context.Context, ch Change, heads Heads) (Change, error) {
	if ch.Direction == "restore" {
		return ch, fmt.Errorf("authority.Cross: change %s is of a restore: railctl authority open-restored", ch.ID)
	}
	ch, found, err := c.judged(ctx, ch, heads)
	if err != nil || ch.Outcome != "" || len(found) == 0 {
		return ch, err
	}
	report := *ch.Report // there is one of every change that was judged before its end
	c.Actor.Reason = fmt.Sprintf("report %d has %d findings", report, len(found))
	if ch, err = c.Abort(ctx, ch.ID); err != nil {
		return ch, err
	}
	return ch, fmt.Errorf("authority.Cross: change %s, report %d: %w", ch.ID, report, ErrBlocked)
}

// overdue gives the scope back where the deadline is over, and reads what is there.
func (c Controller) overdue(ctx context.Context, ch Change) (Change, error) {
	if err := ctx.Err(); err != nil {
		return ch, err
	}
	if _, err := abortOverdue(ctx, c.DB, c.Actor.Name); err != nil {
		return ch, err
	}
	return ChangeOf(ctx, c.DB, ch.ID)
}
