package audit

import (
	"context"

	"github.com/jackc/pgx/v5"
)

const relaysSQL = `
SELECT l.publishing = 'required',
       (SELECT count(*) FROM ops.outbox_relays r WHERE r.expires_at > clock_timestamp()),
       (SELECT count(*) FROM ops.outbox_failures f WHERE f.parked_at IS NOT NULL)
  FROM ops.ledger l`

// relaysAlive says whether somebody sends the facts on that must be sent on. Its row
// outlives a relay by a lease, so one that just died may still count.
func relaysAlive(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	var required bool
	var alive, parked int64
	if err := tx.QueryRow(ctx, relaysSQL).Scan(&required, &alive, &parked); err != nil {
		return Diagnosis{}, err
	}
	if required && alive == 0 {
		return found(Fail, "start outbox-relay, or `railctl outbox publishing none` where none is meant to run",
			"publishing is required and no relay lives")
	}
	return found(worse(parked > 0, Warn), "`railctl outbox parked` says why; `railctl outbox replay` sends them again",
		"%s, %s parked", plural(alive, "relay lives", "relays live"), plural(parked, "fact is", "facts are"))
}
