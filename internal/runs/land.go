package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// ErrFenced means that the token is no longer the one being served: nothing of the
// write was kept, and trying again cannot help.
var ErrFenced = errors.New("fenced: another token is being served")

// Landing is a checked frame on its way into the ledger.
type Landing struct {
	jobs.Claim
	Frame  Frame
	Digest [32]byte
	Usage  Usage
	Quiet  time.Duration            // settle time of a follow-up
	Failed func(try int, err error) // told of each try of LandSettled that failed; may be nil
}

// Landed is what the ledger answered.
type Landed struct {
	FollowUp  bool          // demand came meanwhile and is queued again
	Owed      time.Duration // age of the oldest demand that the frame serves
	Ambiguous bool          // the answer was lost; the run row said that it landed
}

// closedAsLanded reads "framed", so that it runs after the frame is in: the run's
// guard looks for it.
const closedAsLanded = `, closed AS (
  UPDATE ops.matter_frame_runs r
     SET outcome = 'landed', finished_at = clock_timestamp(), model_calls = @model_calls::bigint, tokens = @tokens::bigint,
         cost_usd = @cost_usd::text::numeric
    FROM framed f WHERE r.run_id = f.run_id
  RETURNING r.run_id
)`

const landedAnswer = `
SELECT l.run_status, coalesce(clock_timestamp() - l.owed_since, interval '0') FROM landed l`

// LandSQL is the whole landing: token check, ledger, frame, run and fact in one
// statement. Zero rows mean fenced, and then nothing was written.
func LandSQL() string { return landSQL(frames.InsertCTE) }

// LandArrivedSQL is LandSQL for a frame that was copied in before.
func LandArrivedSQL() string { return landSQL(frames.InsertArrivedCTE) }

func landSQL(framed string) string {
	return jobs.LandCTE + framed + closedAsLanded + outbox.AppendFromCTE("told", "landed", "true", "@trace::text") + landedAnswer
}

// constant: the texts, put together and taken apart once
var (
	landStatement        = pg.NewStatement(LandSQL())
	landArrivedStatement = pg.NewStatement(LandArrivedSQL())
)

// A frame above this size is copied in before instead of sent as a parameter, in a
// transaction of its own; below it the one statement is twice as fast.
const copyAbove = 256 << 10

// Land lands a frame under its token. It returns ErrFenced where the token is
// stale, having written nothing. Any other error leaves the outcome open: Settle
// tells.
func Land(ctx context.Context, db DB, l Landing) (Landed, error) {
	if len(l.Frame.JSON) > copyAbove {
		return landLarge(ctx, db, l)
	}
	args := l.args(ctx)
	args["frame"] = l.Frame.JSON
	return scanLanded(db.QueryRow(ctx, landStatement.SQL(), landStatement.With(args)), l)
}

// refusedAtCommit tells the commit's own judgement (SQLSTATE class RF): authority over
// the matter moved while the landing was under way. That this role may not land at all
// is not that.
func refusedAtCommit(err error) bool {
	state := pg.SQLState(err)
	return strings.HasPrefix(state, "RF") && state != "RF403"
}

// DB is a pool or a connection: something that can also start a transaction.
type DB interface {
	pg.DB
	pg.Beginner
}

func (l Landing) args(ctx context.Context) pgx.NamedArgs {
	return pgx.NamedArgs{
		"firm": l.Key.Firm, "matter": l.Key.Matter, "generation": l.Token.Generation, "run": l.Token.Run,
		"quiet": l.Quiet, "model_calls": l.Usage.ModelCalls, "tokens": l.Usage.Tokens, "cost_usd": decimal(l.Usage.CostUSD),
		"fact": string(rail.BriefLanded), "trace": factTrace(ctx, l.Token),
		"digest": l.Digest[:], "schema_version": l.Frame.SchemaVersion, "builder_version": l.Frame.BuilderVersion,
	}
}

func scanLanded(row pgx.Row, l Landing) (out Landed, err error) {
	var status string
	switch err := row.Scan(&status, &out.Owed); {
	case errors.Is(err, pgx.ErrNoRows):
		return Landed{}, ErrFenced
	case refusedAtCommit(err):
		return Landed{}, fmt.Errorf("%w: %w", ErrFenced, err)
	case err != nil:
		return Landed{}, fmt.Errorf("runs.Land(%s, %s): %w", l.Key, l.Token, err)
	}
	out.FollowUp = status == "queued"
	return out, nil
}

// landLarge lands a frame that comes in before anything is locked. Everything
// commits together or not at all. The lock on the row then waits for nothing but the
// commit, and a worker that stalls in that instant is cut off by the server.
func landLarge(ctx context.Context, db DB, l Landing) (out Landed, err error) {
	err = pg.InTx(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = '10s'`); err != nil {
			return fmt.Errorf("runs.Land(%s, %s): %w", l.Key, l.Token, err)
		}
		args := l.args(ctx)
		arrival := rail.NewUUID() // another at each try: an earlier one may still be on its way
		args["arrival"] = arrival
		if err := frames.CopyIn(ctx, tx, arrival, l.Frame.JSON); err != nil {
			return fmt.Errorf("runs.Land(%s, %s): %w", l.Key, l.Token, err)
		}
		out, err = scanLanded(tx.QueryRow(ctx, landArrivedStatement.SQL(), landArrivedStatement.With(args)), l)
		return err
	})
	if refusedAtCommit(err) {
		err = fmt.Errorf("%w: %w", ErrFenced, err)
	}
	if err != nil {
		return Landed{}, err
	}
	return out, nil
}

// decimal passes a decimal number on as text, anything else as NULL: a builder's
// odd bill must not cost its frame.
func decimal(s string) *string {
	if len(s) == 0 || len(s) > 30 {
		return nil
	}
	dots := 0
	for _, c := range s {
		if c == '.' {
			dots++
		} else if c < '0' || c > '9' {
			return nil
		}
	}
	if dots > 1 || s == "." {
		return nil
	}
	return &s
}
