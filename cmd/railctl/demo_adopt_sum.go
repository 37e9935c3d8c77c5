package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"briefrail/internal/brief"
	"briefrail/internal/frames"
	"briefrail/internal/rail"
)

// madeFrom counts a matter's live documents, and those that its current Brief names.
func (d *adopting) madeFrom(ctx context.Context, k rail.Key) (stored, made int, err error) {
	err = d.base.pool.QueryRow(ctx, `SELECT count(*) FROM record.documents WHERE firm_id = $1 AND matter_id = $2 AND replaced_at IS NULL AND deleted_at IS NULL`, k.Firm, k.Matter).Scan(&stored)
	if err != nil {
		return 0, 0, err
	}
	current, ok, err := frames.Current(ctx, d.base.pool, k)
	if err != nil || !ok {
		return stored, 0, err
	}
	var f brief.Frame
	if err := json.Unmarshal(current.JSON, &f); err != nil {
		return stored, 0, fmt.Errorf("read the frame of %s: %w", k, err)
	}
	return stored, len(f.BuiltFrom), nil
}

// spread2 is the middle of some durations, and the longest.
func spread2(all []time.Duration) (middle, longest time.Duration) {
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1]
}
