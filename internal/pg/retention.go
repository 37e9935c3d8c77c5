package pg

import (
	"context"
	"fmt"
	"time"
)

// Prune calls ops.prune, the only way out for rows of kind "outbox", "receipts" or
// "runs": at most batch of them that are done and older than older. It returns how
// many went; fewer than batch means that nothing more is due.
func Prune(ctx context.Context, db DB, kind string, older time.Duration, batch int) (n int64, err error) {
	if err := db.QueryRow(ctx, `SELECT ops.prune($1, $2, $3)`, kind, older, batch).Scan(&n); err != nil {
		return 0, fmt.Errorf("prune %s: %w", kind, err)
	}
	return n, nil
}
