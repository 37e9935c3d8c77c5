package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

const outcomeSQL = `SELECT outcome FROM ops.matter_frame_runs WHERE run_id = $1`

// Outcome reads what became of a run: the answer to every "did it happen?". It is
// empty where the run is gone (its matter was purged).
func Outcome(ctx context.Context, db pg.DB, run rail.UUID) (outcome string, err error) {
	err = db.QueryRow(ctx, outcomeSQL, run).Scan(&outcome)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("runs.Outcome(%s): %w", run, err)
	}
	return outcome, nil
}

// A run that is still running although its token is stale (the row was rewound by
// hand or by a restore) is fenced; one that has ended keeps its outcome and gets
// the time of the late write.
const refusedSQL = `
UPDATE ops.matter_frame_runs
   SET outcome = CASE WHEN outcome = 'running' THEN 'fenced' ELSE outcome END,
       finished_at = CASE WHEN outcome = 'running' THEN clock_timestamp() ELSE finished_at END,
       error_kind = CASE WHEN outcome = 'running' THEN 'fenced' ELSE error_kind END,
       late_write_at = CASE WHEN $2 THEN clock_timestamp() END
 WHERE run_id = $1 AND outcome <> 'landed' AND late_write_at IS NULL AND ($2 OR outcome = 'running')`

// NoteRefused records on a run that its token is stale; late says that it tried to
// write and was refused.
func NoteRefused(ctx context.Context, db pg.DB, run rail.UUID, late bool) error {
	if _, err := db.Exec(ctx, refusedSQL, run, late); err != nil {
		return fmt.Errorf("runs.NoteRefused(%s): %w", run, err)
	}
	return nil
}

// LandSettled lands and settles every ambiguity: it tries until the frame is
// landed, the token is refused, the database refuses the frame itself, ctx ends, or
// the frame has proved too much for a statement's time slowTries times in a row while
// the database answered otherwise: it would hold its slot for ever. Zero rows can also
// mean that an earlier try committed and its answer was lost; the run row tells the
// two apart.
func LandSettled(ctx context.Context, db DB, l Landing, pause func(context.Context, int)) (Landed, error) {
	slow := 0
	for try := 1; ; try++ {
		out, err := landOnce(ctx, db, l)
		switch {
		case err == nil:
			out.Ambiguous = false
			return out, nil
		case !errors.Is(err, ErrFenced) && !pg.IsTransient(err) && !pg.IsUnknownOutcome(err):
			return Landed{}, err
		}
		if l.Failed != nil {
			l.Failed(try, err)
		}
		outcome, asked := askBounded(ctx, db, l.Token.Run)
		if slow++; asked != nil || !outOfTime(err) {
			slow = 0
		}
		switch {
		case asked == nil && outcome == "landed":
			return Landed{Ambiguous: true}, nil
		case asked == nil && (errors.Is(err, ErrFenced) || outcome != "running"):
			return Landed{}, ErrFenced
		case ctx.Err() != nil:
			return Landed{}, errors.Join(context.Cause(ctx), err)
		case slow == slowTries:
			return Landed{}, err
		}
		pause(ctx, try)
	}
}

const slowTries = 10

// outOfTime tells the end of a statement's time, the server's or ours, from a server
// that is away.
func outOfTime(err error) bool {
	return pg.SQLState(err) == "57014" || errors.Is(err, context.DeadlineExceeded)
}

// landTimeout bounds one try: a server that accepts and never answers must not
// hold a slot.
const landTimeout = 30 * time.Second

func landOnce(ctx context.Context, db DB, l Landing) (Landed, error) {
	ctx, cancel := context.WithTimeout(ctx, landTimeout)
	defer cancel()
	return Land(ctx, db, l)
}

// askBounded asks on a context of its own: the landing's may just have ended, and
// the question matters most then.
func askBounded(ctx context.Context, db pg.DB, run rail.UUID) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return Outcome(ctx, db, run)
}
