package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// BuilderTrouble says that workers hand claims back uncharged, because the builder
// and not the matter is at fault. A worker's distrust is in its own memory: this is
// inferred from the runs of the last minutes, those since the builder last answered
// for a matter. A worker that has nothing to build leaves no such runs.
type BuilderTrouble struct {
	Kind     string    `json:"error_kind"` // of the latest run handed back
	Text     string    `json:"error_text"` // of the same, in the builder's or the network's words
	Released int64     `json:"released"`   // runs handed back since the builder last answered
	Since    time.Time `json:"since"`      // when the first of them ended
	Last     time.Time `json:"last"`       // when the latest ended
}

// A run that failed was charged to its matter: its worker trusts the builder. The
// canary is built inside the worker and says nothing of the builder. A probe comes
// at least every two minutes, so ten are enough to look back.
const builderTroubleSQL = `
WITH recent AS (
  SELECT outcome, coalesce(error_kind, '') AS kind, coalesce(error_text, '') AS text, finished_at
    FROM ops.matter_frame_runs
   WHERE started_at > statement_timestamp() - interval '30 minutes' AND finished_at > statement_timestamp() - interval '10 minutes'
     AND firm_id <> $1)
SELECT (array_agg(kind ORDER BY finished_at DESC))[1], (array_agg(text ORDER BY finished_at DESC))[1],
       count(*), min(finished_at), max(finished_at)
  FROM recent
 WHERE outcome = 'released' AND kind NOT IN ('', 'interrupted')
   AND finished_at > coalesce((SELECT max(finished_at) FROM recent WHERE outcome IN ('landed', 'failed')), '-infinity')
HAVING count(*) > 0`

// ReadBuilderTrouble returns nil where no run of the last minutes blames the
// builder, or where it has answered since.
func ReadBuilderTrouble(ctx context.Context, db pg.DB) (*BuilderTrouble, error) {
	b, err := one[BuilderTrouble](ctx, db, builderTroubleSQL, rail.Canary().Firm)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("audit.ReadBuilderTrouble: %w", err)
	}
	return &b, nil
}

// String tells the trouble in one sentence's part.
func (b BuilderTrouble) String() string {
	said := b.Kind
	if b.Text != "" {
		said += ", " + b.Text
	}
	return fmt.Sprintf("%s handed back uncharged since %s, the latest %s: %s",
		plural(b.Released, "claim", "claims"), clock(b.Since), clock(b.Last), said)
}

// builderFail is how long trouble lasts before it is more than a restart of the
// build service.
const builderFail = time.Minute

func builderTrusted(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	b, err := ReadBuilderTrouble(ctx, tx)
	switch {
	case err != nil:
		return Diagnosis{}, err
	case b == nil:
		return found(OK, "", "no claim of the last 10 minutes was handed back because of the builder, or it has answered since")
	}
	state := Warn
	if b.Last.Sub(b.Since) > builderFail {
		state = Fail
	}
	return found(state, builderAdvice(b.Kind), "%s", b)
}

// builderAdvice is what to look at, by the kind of the error.
func builderAdvice(kind string) string {
	where := "look at the build service and its log"
	switch kind {
	case "auth":
		where = "the build service does not take our token: see builder.http.token_file"
	case "not_found", "redirect", "html":
		where = "something else than the build service answers: see builder.http.url, and proxies between"
	case "transport":
		where = "the build service does not answer: is it running, and is builder.http.url right?"
	case "exec_start":
		where = "the build command cannot be started: see builder.exec.command"
	}
	return where + "; one build at a time is tried meanwhile, and the rest go on once it succeeds"
}
