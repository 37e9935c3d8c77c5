package frames

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Stored is a frame as the table has it.
type Stored struct {
	Generation     int64     `json:"generation"`
	JSON           []byte    `json:"-"` // jsonb's text; its digest is still Digest
	Digest         []byte    `json:"digest"`
	SchemaVersion  string    `json:"schema_version"`
	BuilderVersion string    `json:"builder_version"`
	Run            rail.UUID `json:"run_id"`
	BuiltAt        time.Time `json:"built_at"`
}

const currentSQL = `
SELECT generation, frame, digest, schema_version, builder_version, run_id, built_at
  FROM ops.matter_frames WHERE firm_id = $1 AND matter_id = $2 ORDER BY generation DESC LIMIT 1`

// Current returns the newest frame of a matter, which is the landed one; ok is
// false where there is none.
func Current(ctx context.Context, db pg.DB, k rail.Key) (f Stored, ok bool, err error) {
	err = db.QueryRow(ctx, currentSQL, k.Firm, k.Matter).
		Scan(&f.Generation, &f.JSON, &f.Digest, &f.SchemaVersion, &f.BuilderVersion, &f.Run, &f.BuiltAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Stored{}, false, nil
	}
	if err != nil {
		return Stored{}, false, fmt.Errorf("frames.Current(%s): %w", k, err)
	}
	return f, true, nil
}

// Prune keeps the newest keep frames of each matter and returns how many went.
func Prune(ctx context.Context, db pg.DB, keys []rail.Key, keep int) (n int64, err error) {
	var firms, matters []rail.UUID
	for _, k := range keys {
		firms, matters = append(firms, k.Firm), append(matters, k.Matter)
	}
	if err := db.QueryRow(ctx, `SELECT ops.prune_frames($1, $2, $3)`, firms, matters, keep).Scan(&n); err != nil {
		return 0, fmt.Errorf("frames.Prune(%d matters): %w", len(keys), err)
	}
	return n, nil
}
