package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Ledger is the ledger's own row beside what the server says of itself now.
type Ledger struct {
	Epoch            int64  `json:"epoch"`
	SystemIdentifier int64  `json:"system_identifier"`
	Timeline         int32  `json:"timeline"`
	Publishing       string `json:"publishing"`
	ServerIdentifier int64  `json:"server_identifier"`
	ServerTimeline   int32  `json:"server_timeline"`
}

// Changed reports that the server is not the one that the ledger last saw: a
// restore or a failover happened, and only a person knows whether it lost commits.
func (l Ledger) Changed() bool {
	return l.SystemIdentifier != l.ServerIdentifier || l.Timeline != l.ServerTimeline
}

const ledgerSQL = `
SELECT l.epoch, l.system_identifier, l.timeline, l.publishing, c.system_identifier, ops.current_timeline()
  FROM ops.ledger l, pg_control_system() c`

// ReadLedger reads the ledger's row.
func ReadLedger(ctx context.Context, db pg.DB) (l Ledger, err error) {
	err = db.QueryRow(ctx, ledgerSQL).
		Scan(&l.Epoch, &l.SystemIdentifier, &l.Timeline, &l.Publishing, &l.ServerIdentifier, &l.ServerTimeline)
	if err != nil {
		return Ledger{}, fmt.Errorf("outbox.ReadLedger: %w", err)
	}
	return l, nil
}

// The row decides whose turn it is: of all workers that ask, one an interval finds
// it old enough, and the fact is committed together with the mark.
const canarySQL = `
WITH turn AS (
  UPDATE ops.ledger SET canary_asked_at = clock_timestamp()
   WHERE canary_asked_at <= clock_timestamp() - $1::interval
  RETURNING 1
)
INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name)
SELECT $2, $3, $4 FROM turn`

// AskCanary appends the canary's fact if none of the fleet did so within every;
// it reports whether this caller's turn it was.
func AskCanary(ctx context.Context, db pg.DB, every time.Duration) (asked bool, err error) {
	tag, err := db.Exec(ctx, canarySQL, every, rail.Canary().Firm, rail.Canary().Matter, string(rail.CanaryFact))
	if err != nil {
		return false, fmt.Errorf("outbox.AskCanary: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

// Prune deletes up to batch facts that are done and older than older: a receipt,
// and published where publishing is required.
func Prune(ctx context.Context, db pg.DB, older time.Duration, batch int) (n int64, err error) {
	return pg.Prune(ctx, db, "outbox", older, batch)
}

// SetPublishing says whether retention has to wait for a fact to be published:
// "none" or "required". It reports whether that changed anything.
func SetPublishing(ctx context.Context, db pg.DB, wanted, actor, reason string) (changed bool, err error) {
	err = db.QueryRow(ctx, `SELECT ops.set_publishing($1, $2, $3)`, wanted, actor, reason).Scan(&changed)
	if err != nil {
		return false, fmt.Errorf("outbox.SetPublishing(%q): %w", wanted, err)
	}
	return changed, nil
}

// RequirePublishing is SetPublishing for a relay that starts: it may say "required"
// and nothing else.
func RequirePublishing(ctx context.Context, db pg.DB, relay string) (changed bool, err error) {
	if err := db.QueryRow(ctx, `SELECT ops.require_publishing($1)`, relay).Scan(&changed); err != nil {
		return false, fmt.Errorf("outbox.RequirePublishing: %w", err)
	}
	return changed, nil
}

// Redecide makes facts undecided again whose receipt's verdict is like the LIKE
// pattern, recorded since, of one firm or (nil UUID) all; the trigger judges them
// under today's rules. Facts that became demand are left alone.
func Redecide(ctx context.Context, db pg.DB, verdict string, since time.Time, firm rail.UUID, actor, reason string) (n int64, err error) {
	err = db.QueryRow(ctx, `SELECT ops.redecide($1, $2, $3, $4, $5)`, verdict, since, firm, actor, reason).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("outbox.Redecide(%q): %w", verdict, err)
	}
	return n, nil
}

// Bumped tells what BumpEpoch did.
type Bumped struct {
	Epoch  int64 `json:"epoch"`
	Fenced int64 `json:"fenced"` // live claims handed back
	Facts  int64 `json:"facts"`  // facts to be judged again
}

// BumpEpoch raises the ledger epoch after a rewind: every live claim is fenced and
// the facts recorded since are judged again.
func BumpEpoch(ctx context.Context, db pg.DB, since time.Time, actor, reason string) (b Bumped, err error) {
	err = db.QueryRow(ctx, `SELECT epoch, fenced, facts FROM ops.bump_epoch($1, $2, $3)`, since, actor, reason).
		Scan(&b.Epoch, &b.Fenced, &b.Facts)
	if err != nil {
		return Bumped{}, fmt.Errorf("outbox.BumpEpoch: %w", err)
	}
	return b, nil
}

// ErrNoFact means that the outbox has no such event.
var ErrNoFact = errors.New("no such fact in the outbox")

const factSQL = `
SELECT seq, event_id, firm_id, matter_id, event_name, recorded_at, coalesce(traceparent, '')
  FROM ops.domain_event_outbox WHERE event_id = $1`

// Get reads one fact.
func Get(ctx context.Context, db pg.DB, event rail.UUID) (Fact, error) {
	rows, err := db.Query(ctx, factSQL, event)
	if err != nil {
		return Fact{}, fmt.Errorf("outbox.Get(%s): %w", event, err)
	}
	f, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Fact])
	if errors.Is(err, pgx.ErrNoRows) {
		return Fact{}, fmt.Errorf("outbox.Get(%s): %w", event, ErrNoFact)
	}
	return f, err
}
