package trigger

import (
	"context"
	"time"

	"briefrail/internal/pg"
)

// Prune deletes up to batch receipts older than older whose fact is gone. The
// caller keeps older longer than any nudge can live in a queue: a receipt is what
// tells a returning nudge from an unknown one.
func Prune(ctx context.Context, db pg.DB, older time.Duration, batch int) (int64, error) {
	return pg.Prune(ctx, db, "receipts", older, batch)
}
