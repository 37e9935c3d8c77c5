package runs

import (
	"context"
	"time"

	"briefrail/internal/pg"
)

// Prune deletes up to batch ended runs older than older. A run whose frame is
// kept stays with it.
func Prune(ctx context.Context, db pg.DB, older time.Duration, batch int) (int64, error) {
	return pg.Prune(ctx, db, "runs", older, batch)
}
