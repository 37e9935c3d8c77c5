package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/rail"
)

// gatedSQL looks no further back than facts are kept: an older receipt has no fact
// that could be judged again. What is undecided is being judged again already.
const gatedSQL = `
SELECT count(*), count(DISTINCT o.firm_id), (min(o.firm_id::text))::uuid, min(o.recorded_at)
  FROM ops.trigger_receipts r JOIN ops.domain_event_outbox o ON o.event_id = r.event_id
 WHERE r.verdict = 'gated:firm_disabled' AND r.decided_at > statement_timestamp() - $2::interval
   AND o.firm_id <> ALL($1)
   AND NOT EXISTS (SELECT 1 FROM ops.outbox_undecided u WHERE u.seq = o.seq)`

// gatedFirms finds facts that were gated because of a firm which is enabled now: a
// gate's verdict stands until somebody asks for another.
func gatedFirms(ctx context.Context, tx pgx.Tx, o DoctorOptions) (Diagnosis, error) {
	if o.DisabledFirms == nil || o.OutboxRetention == 0 {
		return Diagnosis{}, errSkip
	}
	var n, firms int64
	var firm *rail.UUID
	var oldest *time.Time
	if err := tx.QueryRow(ctx, gatedSQL, o.DisabledFirms, o.OutboxRetention).Scan(&n, &firms, &firm, &oldest); err != nil {
		return Diagnosis{}, err
	}
	if n == 0 || firm == nil || oldest == nil {
		return found(OK, "", "no fact of an enabled firm is gated for its firm")
	}
	of := "--firm " + firm.String()
	if firms > 1 {
		of = "--all"
	}
	return found(Warn, fmt.Sprintf("`railctl outbox redecide --verdict gated:firm_disabled --since %s %s --reason WHY` has them judged again; --dry-run counts",
		oldest.UTC().Truncate(time.Second).Format(time.RFC3339), of),
		"%s of %s that trigger.disabled_firms does not name (any more) %s gated", plural(n, "fact", "facts"), plural(firms, "firm", "firms"), isAre(n))
}

func isAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
