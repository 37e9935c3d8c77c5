package jobs

import (
	"context"
	"fmt"

	"briefrail/internal/pg"
)

// Note writes an audit row for what an operator does outside the ledger, where no
// function of the database could write it along with the change. details becomes JSON.
func (a Actor) Note(ctx context.Context, db pg.DB, action, target string, details map[string]any) error {
	if _, err := db.Exec(ctx, `SELECT ops.audit($1, $2, $3, $4, $5)`, a.Name, action, target, a.Reason, details); err != nil {
		return fmt.Errorf("jobs.Note(%s of %s): %w", action, target, err)
	}
	return nil
}
