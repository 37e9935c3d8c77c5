package runs

import (
	"context"
	"errors"
	"fmt"
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
	Frame       Frame
	Digest      [32]byte
	Usage       Usage
	Quiet       time.Duration // settle time of a follow-up
	TraceParent string
	Failed      func(try int, err error) // told of each try of LandSettled that failed; may be nil
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
func LandSQL() string {
	return jobs.LandCTE + frames.InsertCTE + closedAsLanded +
		outbox.AppendFromCTE("told", "landed", "true") + landedAnswer
}

// constant: the text, put together and taken apart once
var landStatement = pg.NewStatement(LandSQL())

// A frame above this size is copied in instead of sent as a parameter, in a
// transaction of four statements; below it the one statement is twice as fast.
const copyAbove = 256 << 10

// Land lands a frame under its token. It returns ErrFenced where the token is
// stale, having written nothing. Any other error leaves the outcome open: Settle
// tells.
func Land(ctx context.Context, db DB, l Landing) (Landed, error) {
	if len(l.Frame.JSON) > copyAbove {
		return landLarge(ctx, db, l)
	}
	args := l.args()
	args["frame"], args["digest"] = l.Frame.JSON, l.Digest[:]
	args["schema_version"], args["builder_version"] = l.Frame.SchemaVersion, l.Frame.BuilderVersion
	return scanLanded(db.QueryRow(ctx, landStatement.SQL(), landStatement.With(args)), l)
}

// DB is a pool or a connection: something that can also start a transaction.
type DB interface {
	pg.DB
	pg.Beginner
}

func (l Landing) args() pgx.NamedArgs {
	return pgx.NamedArgs{
		"firm": l.Key.Firm, "matter": l.Key.Matter, "generation": l.Token.Generation, "run": l.Token.Run,
		"quiet": l.Quiet, "model_calls": l.Usage.ModelCalls, "tokens": l.Usage.Tokens, "cost_usd": decimal(l.Usage.CostUSD),
		"fact": string(rail.BriefLanded), "traceparent": optional(l.TraceParent),
	}
}

func scanLanded(row pgx.Row, l Landing) (out Landed, err error) {
	var status string
	switch err := row.Scan(&status, &out.Owed); {
	case errors.Is(err, pgx.ErrNoRows):
		return Landed{}, ErrFenced
	case err != nil:
		return Landed{}, fmt.Errorf("runs.Land(%s, %s): %w", l.Key, l.Token, err)
	}
	out.FollowUp = status == "queued"
	return out, nil
}

// The same landing in pieces, for a large frame. The token check is still the
// first statement, and everything commits together or not at all.
const (
	landJobSQL = jobs.LandCTE + `
SELECT l.run_status, coalesce(clock_timestamp() - l.owed_since, interval '0'), l.authority_epoch FROM landed l`
	landRunSQL = `WITH framed AS (SELECT @run::uuid AS run_id)` + closedAsLanded + `, landed AS (
  SELECT @firm::uuid AS firm_id, @matter::uuid AS matter_id
)`
)

func landLarge(ctx context.Context, db DB, l Landing) (out Landed, err error) {
	err = pg.InTx(ctx, db, func(tx pgx.Tx) error {
		var status string
		var epoch int64
		switch err := tx.QueryRow(ctx, landJobSQL, l.args()).Scan(&status, &out.Owed, &epoch); {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrFenced
		case err != nil:
			return fmt.Errorf("runs.Land(%s, %s): %w", l.Key, l.Token, err)
		}
		out.FollowUp = status == "queued"
		if err := frames.CopyIn(ctx, tx, frames.Row{
			Key: l.Key, Token: l.Token, JSON: l.Frame.JSON, Digest: l.Digest, AuthorityEpoch: epoch,
			SchemaVersion: l.Frame.SchemaVersion, BuilderVersion: l.Frame.BuilderVersion,
		}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, landRunSQL+outbox.AppendFromCTE("told", "landed", "true")+` SELECT 1`, l.args())
		if err != nil {
			return fmt.Errorf("runs.Land(%s, %s): close: %w", l.Key, l.Token, err)
		}
		return nil
	})
	return out, err
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

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
