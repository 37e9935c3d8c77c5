package runs

import (
	"context"
	"time"

	"briefrail/internal/frames"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Prune deletes up to batch ended runs older than older. A run whose frame is
// kept stays with it.
func Prune(ctx context.Context, db pg.DB, older time.Duration, batch int) (int64, error) {
	return pg.Prune(ctx, db, "runs", older, batch)
}

// PruneFrames keeps the newest keep frames of each matter and returns how many
// went.
func PruneFrames(ctx context.Context, db pg.DB, keys []rail.Key, keep int) (int64, error) {
	return frames.Prune(ctx, db, keys, keep)
}
