package authority

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// DB is a pool or a connection: something that can also start a transaction.
type DB interface {
	pg.DB
	pg.Beginner
}

// Actor is who acts and why; both go into the audit row of the same transaction.
type Actor struct {
	Name   string
	Reason string
}

// Controller takes a change from step to step. It holds nothing between two calls:
// any other one may go on.
type Controller struct {
	DB    DB
	Actor Actor

	second DB // another session, where there is one: see Alone
}

// step calls one verb of the database and returns the change as it is now.
func (c Controller) step(ctx context.Context, what, sql string, args ...any) (Change, error) {
	return one[Change](ctx, c.DB, what, `SELECT `+changeColumns+` FROM `+sql, args...)
}

// RegisterWriter makes a writer known, or changes its roles and endpoint. The roles of
// an external one must exist; they are granted what they need of schema ops.
func (c Controller) RegisterWriter(ctx context.Context, w Writer) error {
	_, err := c.DB.Exec(ctx, `SELECT ops.register_writer($1, $2, $3, $4, $5, $6, $7)`,
		w.Name, w.Kind, w.Roles, w.Importer, w.Endpoint, c.Actor.Name, c.Actor.Reason)
	return wrap("RegisterWriter("+w.Name+")", err)
}

// Configure says who writes some scopes already; it moves nothing. From here on the
// rail's own tables are fenced. n is how many scopes had no fence before.
func (c Controller) Configure(ctx context.Context, scopes []string, writer string) (n int, err error) {
	err = c.DB.QueryRow(ctx, `SELECT ops.configure_fences($1, $2, $3, $4)`, scopes, writer, c.Actor.Name, c.Actor.Reason).Scan(&n)
	return n, wrap("Configure("+writer+")", err)
}

// Guard is a table of an old writer that the fence stands before.
type Guard struct {
	Table    string `json:"table" db:"guarded"`                   // with its schema, as the server spells it
	Key      string `json:"key_column,omitempty" db:"key_column"` // a matter's id, uuid; empty with Scope
	Scope    string `json:"scope,omitempty" db:"scope"`           // every row is of this one
	Writer   string `json:"writer" db:"writer"`
	Sequence string `json:"sequence_column,omitempty" db:"sequence_column"` // orders the writer's decisions, bigint
	Epoch    string `json:"epoch_column,omitempty" db:"epoch_column"`       // that a row was written under, bigint
}

// Guard puts a table under the fence. The session must own the table.
func (c Controller) Guard(ctx context.Context, g Guard) error {
	_, err := c.DB.Exec(ctx, `SELECT ops.guard_table($1::text::regclass, nullif($2, '')::name, nullif($3, ''), $4, nullif($5, '')::name, nullif($6, '')::name, $7, $8)`,
		g.Table, g.Key, g.Scope, g.Writer, g.Sequence, g.Epoch, c.Actor.Name, c.Actor.Reason)
	return wrap("Guard("+g.Table+")", err)
}

// Unguard frees the table of a retired writer. The session must own the table.
func (c Controller) Unguard(ctx context.Context, table string) error {
	_, err := c.DB.Exec(ctx, `SELECT ops.unguard_table($1::text::regclass, $2, $3)`, table, c.Actor.Name, c.Actor.Reason)
	return wrap("Unguard("+table+")", err)
}

// Guards lists the guarded tables.
func Guards(ctx context.Context, db pg.DB) ([]Guard, error) {
	return list[Guard](ctx, db, "Guards", `
SELECT guarded::text AS guarded, coalesce(key_column, '')::text AS key_column, coalesce(scope, '') AS scope, writer,
       coalesce(sequence_column, '')::text AS sequence_column, coalesce(epoch_column, '')::text AS epoch_column
  FROM ops.write_fence_guards ORDER BY 1`)
}

// Close changes admission: from its commit on, nobody is admitted to the scope.
func (c Controller) Close(ctx context.Context, change rail.UUID) (Change, error) {
	return c.step(ctx, "Close", `ops.close_scope($1, $2, $3)`, change, c.Actor.Name, c.Actor.Reason)
}

// Drain waits for those who were admitted before, for the grace at most.
func (c Controller) Drain(ctx context.Context, change rail.UUID) (Change, error) {
	return c.step(ctx, "Drain", `ops.drain_scope($1)`, change)
}

// Seal ends the last commits and reads the final sequence. The change is still drained
// where somebody held a commit open until the deadline: blockers says who.
func (c Controller) Seal(ctx context.Context, change rail.UUID) (Change, error) {
	return c.step(ctx, "Seal", `ops.seal_scope($1)`, change)
}

// Advance opens the scope to the new writer under the next epoch. It needs a report of
// this closing that passed. A change that was aborted meanwhile is returned as that.
func (c Controller) Advance(ctx context.Context, change rail.UUID) (Change, error) {
	return c.step(ctx, "Advance", `ops.advance_scope($1, $2, $3)`, change, c.Actor.Name, c.Actor.Reason)
}

// Abort gives the scope back to the old writer under the same epoch.
func (c Controller) Abort(ctx context.Context, change rail.UUID) (Change, error) {
	return c.step(ctx, "Abort", `ops.abort_change($1, $2, $3)`, change, c.Actor.Name, c.Actor.Reason)
}

// Complete ends the window: from now on, restore or fix forward.
func (c Controller) Complete(ctx context.Context, change rail.UUID) (Change, error) {
	return c.step(ctx, "Complete", `ops.complete_change($1, $2, $3)`, change, c.Actor.Name, c.Actor.Reason)
}

// Retire notes that nothing of the old writer is needed for the scope any more.
func (c Controller) Retire(ctx context.Context, change rail.UUID) (Change, error) {
	return c.step(ctx, "Retire", `ops.retire_change($1, $2, $3)`, change, c.Actor.Name, c.Actor.Reason)
}

// Release ends a hold, for a reason of one class: availability, data_integrity,
// routing, compatibility or external_consequence. false where it was over already.
func (c Controller) Release(ctx context.Context, hold int64, class string) (was bool, err error) {
	err = c.DB.QueryRow(ctx, `SELECT ops.release_hold($1, $2, $3, $4)`, hold, class, c.Actor.Name, c.Actor.Reason).Scan(&was)
	return was, wrap(fmt.Sprintf("Release(%d)", hold), err)
}

// CloseRestored closes every scope of a ledger that came out of a backup, until a
// person opens each under a new epoch. n is how many it closed.
func (c Controller) CloseRestored(ctx context.Context) (n int, err error) {
	err = c.DB.QueryRow(ctx, `SELECT ops.close_restored($1, $2)`, c.Actor.Name, c.Actor.Reason).Scan(&n)
	return n, wrap("CloseRestored", err)
}

// OpenRestored opens one such scope. epoch must lie above every one that was handed
// out, in the lost history too.
func (c Controller) OpenRestored(ctx context.Context, scope, writer string, epoch int64) (Change, error) {
	return c.step(ctx, "OpenRestored", `ops.open_restored($1, $2, $3, $4, $5)`, scope, writer, epoch, c.Actor.Name, c.Actor.Reason)
}

// millis is a duration as the database's options have it.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// asText is v as the database reads JSON in every mode of the driver. What is passed
// here are structs and maps of plain values, which always have a text.
func asText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(text)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("authority.%s: %w", what, err)
}
