package authority

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

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
//
// All steps take sessions of their own, on which they were rehearsed before anything closes:
// what a session has to plan and read for the first time is not part of the pause.
func (c Controller) Cross(ctx context.Context, change rail.UUID, heads Heads) (Change, error) {
	c, release, err := c.Alone(ctx)
	if err != nil {
		return Change{}, wrap("Cross", err)
	}
	defer release()
	ch, err := ChangeOf(ctx, c.DB, change)
	if err == nil && ch.Phase == "shadowed" {
		err = c.Rehearse(ctx, ch)
	}
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

// secondWithin is how long a second session is waited for: a pool that has none to spare
// makes a crossing slower, and must not hold it up.
const secondWithin = time.Second

// Alone is the same controller on two sessions of its own, until they are released: one
// for its steps, and one that looks beside it. It leaves one of the pool to others, as
// those who are asked for heads may be among them; where the pool is too small for that,
// or where there is none, the controller has fewer sessions, or is what it was.
func (c Controller) Alone(ctx context.Context) (alone Controller, release func(), err error) {
	pool, ok := c.DB.(*pgxpool.Pool)
	if !ok || pool.Config().MaxConns < 2 {
		return c, func() {}, nil
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return c, nil, err
	}
	c.DB = conn
	if pool.Config().MaxConns < 3 {
		return c, conn.Release, nil
	}
	bounded, cancel := context.WithTimeout(ctx, secondWithin)
	defer cancel()
	second, err := pool.Acquire(bounded)
	if err != nil {
		return c, conn.Release, nil
	}
	c.second = second
	return c, func() { second.Release(); conn.Release() }, nil
}

// Rehearse has the session play a crossing of a fixture, which is taken back, and look
// at the whole scope while it is open. What it finds is of no account, as the scope is
// being written.
func (c Controller) Rehearse(ctx context.Context, ch Change) error {
	_, err := c.DB.Exec(ctx, `
SELECT ops.move_unready($1, $3), d.digest, (SELECT count(*) FROM ops.verify_scope($1, $2, ops.fence_final_sequence($1, $2))), (SELECT count(*) FROM ops.scope_heads($1))
  FROM ops.scope_digest($1) d`, ch.Scope, ch.From, ch.To)
	if err == nil && c.second != nil {
		_, err = c.second.Exec(ctx, `SELECT d.digest, (SELECT count(*) FROM ops.scope_heads($1)) FROM ops.scope_digest($1) d`, ch.Scope)
	}
	return wrap("Rehearse", err)
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
