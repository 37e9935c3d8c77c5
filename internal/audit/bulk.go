package audit

import (
	"context"
	"errors"
	"fmt"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// BulkFilter names many matters, for a verb that acts on all of them. Either Firm
// or All has to be given, so that nothing left out means everybody.
type BulkFilter struct {
	Firm rail.UUID
	All  bool
	// Status keeps jobs of one run_status.
	Status string
	// Builder keeps matters whose current frame this builder version made.
	Builder string
	// BuilderNot keeps matters whose current frame another builder version made.
	// Versions have no order: whether it is an older one is not known.
	BuilderNot string
}

// ErrUnbounded means that a BulkFilter names neither a firm nor all.
var ErrUnbounded = errors.New("name a firm, or all")

// The canary's matter is nobody's: bulk verbs pass it by.
const bulkSQL = `
  FROM ops.matter_frame_jobs j
 WHERE ($1::uuid IS NULL OR j.firm_id = $1) AND j.firm_id <> $2 AND ($3 = '' OR j.run_status = $3)
   AND (($4 = '' AND $5 = '') OR EXISTS (
         SELECT 1 FROM ops.matter_frames f
          WHERE f.firm_id = j.firm_id AND f.matter_id = j.matter_id AND f.generation = j.landed_generation
            AND ($4 = '' OR f.builder_version = $4) AND ($5 = '' OR f.builder_version <> $5)))`

func (f BulkFilter) args() ([]any, error) {
	if f.Firm.IsZero() && !f.All {
		return nil, ErrUnbounded
	}
	return []any{f.Firm, rail.Canary().Firm, f.Status, f.Builder, f.BuilderNot}, nil
}

// BulkCount counts the matters of a filter: what a preview shows.
func BulkCount(ctx context.Context, db pg.DB, f BulkFilter) (n int64, err error) {
	args, err := f.args()
	if err != nil {
		return 0, err
	}
	if err := db.QueryRow(ctx, `SELECT count(*)`+bulkSQL, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("audit.BulkCount: %w", err)
	}
	return n, nil
}

// BulkKeys lists up to limit keys of a filter after the given one (the zero Key to
// begin), in key order; fewer than limit means that there are no more.
func BulkKeys(ctx context.Context, db pg.DB, f BulkFilter, after rail.Key, limit int) ([]rail.Key, error) {
	args, err := f.args()
	if err != nil {
		return nil, err
	}
	args = append(args, [16]byte(after.Firm), [16]byte(after.Matter), orDefault(limit))
	keys, err := list[rail.Key](ctx, db, `SELECT j.firm_id, j.matter_id`+bulkSQL+`
   AND (j.firm_id, j.matter_id) > ($6::uuid, $7::uuid) ORDER BY j.firm_id, j.matter_id LIMIT $8`, args...)
	if err != nil {
		return nil, fmt.Errorf("audit.BulkKeys: %w", err)
	}
	return keys, nil
}
