package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/jobs"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Retry is how failures are spaced and when they end.
type Retry struct {
	MaxAttempts int
	Backoff     time.Duration // first bound; doubles, full jitter below it
	BackoffMax  time.Duration
}

// Failure is why an attempt ended without a frame.
type Failure struct {
	Kind       string // of the closed set of build errors
	Text       string // short, valid UTF-8
	Permanent  bool   // the matter's own fault: no further attempt
	RetryAfter time.Duration
	Preview    []byte // original bytes of what the builder said, capped
	Hash       []byte // SHA-256 of all of them
	Usage      Usage
}

// End tells what became of the job.
type End struct {
	Status    string // queued or parked
	Attempts  int
	NotBefore time.Time
}

// closedAs closes the run that the fragment named source gave up.
func closedAs(source string) string {
	return `, closed AS (
  UPDATE ops.matter_frame_runs r
     SET outcome = @outcome::text, finished_at = clock_timestamp(), error_kind = @kind::text, error_text = @error::text,
         error_preview = @preview::bytea, error_sha256 = @hash::bytea,
         model_calls = @model_calls::bigint, tokens = @tokens::bigint, cost_usd = @cost_usd::text::numeric
    FROM ` + source + ` s WHERE r.run_id = s.run_id AND r.outcome = 'running'
  RETURNING r.run_id
)`
}

// AbandonCTE closes the runs of expired claims, fed by "failed"; for the sweep.
const AbandonCTE = `, closed AS (
  UPDATE ops.matter_frame_runs r
     SET outcome = 'expired', finished_at = clock_timestamp(), error_kind = 'lease_expired', error_text = @error::text
    FROM failed s WHERE r.run_id = s.run_id AND r.outcome = 'running'
  RETURNING r.run_id
)`

// FailSQL and ReleaseSQL are the whole transitions, one statement each.
func FailSQL() string {
	return jobs.FailCTE + closedAs("failed") + outbox.AppendFromCTE("told", "failed", "s.run_status = 'parked'", "@trace::text") +
		` SELECT run_status, attempts, not_before FROM failed`
}

// ReleaseSQL hands the claim back.
func ReleaseSQL() string {
	return jobs.ReleaseCTE + closedAs("released") + ` SELECT run_status, attempts, not_before FROM released`
}

// Fail ends an attempt that got no frame: queued again with backoff, or parked
// when its attempts are used up or the fault is the matter's, except that demand
// which came meanwhile always gets its try. ErrFenced as in Land.
func Fail(ctx context.Context, db pg.DB, c jobs.Claim, f Failure, r Retry) (End, error) {
	args := endArgs(c, f, "failed")
	args["permanent"], args["max_attempts"] = f.Permanent, r.MaxAttempts
	args["backoff"], args["backoff_max"], args["retry_after"] = r.Backoff, r.BackoffMax, min(f.RetryAfter, r.BackoffMax)
	args["fact"], args["trace"] = string(rail.BriefParked), factTrace(ctx, c.Token)
	return scanEnd(db.QueryRow(ctx, FailSQL(), args), "runs.Fail", c)
}

// Release hands a claim back, queued after delay, without charging the attempt:
// the worker stops, or the builder is at fault. ErrFenced as in Land.
func Release(ctx context.Context, db pg.DB, c jobs.Claim, f Failure, delay time.Duration) (End, error) {
	args := endArgs(c, f, "released")
	args["delay"] = delay
	return scanEnd(db.QueryRow(ctx, ReleaseSQL(), args), "runs.Release", c)
}

func endArgs(c jobs.Claim, f Failure, outcome string) pgx.NamedArgs {
	return pgx.NamedArgs{
		"firm": c.Key.Firm, "matter": c.Key.Matter, "generation": c.Token.Generation, "run": c.Token.Run,
		"outcome": outcome, "kind": f.Kind, "error": tidy(f.Text), "preview": f.Preview[:min(len(f.Preview), 2048)], "hash": f.Hash,
		"model_calls": f.Usage.ModelCalls, "tokens": f.Usage.Tokens, "cost_usd": decimal(f.Usage.CostUSD),
	}
}

func scanEnd(row pgx.Row, op string, c jobs.Claim) (e End, err error) {
	switch err := row.Scan(&e.Status, &e.Attempts, &e.NotBefore); {
	case errors.Is(err, pgx.ErrNoRows):
		return End{}, ErrFenced
	case err != nil:
		return End{}, fmt.Errorf("%s(%s, %s): %w", op, c.Key, c.Token, err)
	}
	return e, nil
}
