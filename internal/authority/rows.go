package authority

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// ErrUnknown means that there is no such scope, change or writer.
var ErrUnknown = errors.New("unknown")

// Writer is one who may have authority.
type Writer struct {
	Name      string     `json:"name" db:"name"`
	Kind      string     `json:"kind" db:"kind"` // rail, external
	Roles     []string   `json:"database_roles" db:"database_roles"`
	Importer  *string    `json:"importer_role,omitempty" db:"importer_role"`
	Endpoint  *string    `json:"endpoint,omitempty" db:"endpoint"`
	Status    string     `json:"status" db:"status"` // active, retired
	RetiredAt *time.Time `json:"retired_at,omitempty" db:"retired_at"`
}

// Fence is who writes one scope.
type Fence struct {
	Scope             string     `json:"scope" db:"scope"`
	Bucket            *int16     `json:"bucket,omitempty" db:"bucket"` // of a scope of matters
	Epoch             int64      `json:"epoch" db:"epoch"`
	Writer            string     `json:"writer" db:"writer"`
	State             string     `json:"state" db:"state"` // open, closing, sealed
	EffectiveRevision int64      `json:"effective_revision" db:"effective_revision"`
	FinalSequence     *int64     `json:"final_sequence,omitempty" db:"final_sequence"`
	Change            rail.UUID  `json:"change_id" db:"change_id"` // the last that closed it
	Deadline          *time.Time `json:"closing_deadline,omitempty" db:"closing_deadline"`
	ChangedAt         time.Time  `json:"changed_at" db:"changed_at"`
}

const fenceColumns = `scope, bucket, epoch, writer, state, effective_revision, final_sequence, change_id,
  CASE WHEN isfinite(closing_deadline) THEN closing_deadline END AS closing_deadline, changed_at`

// Change is one move of authority over one scope.
type Change struct {
	ID             rail.UUID       `json:"change_id" db:"change_id"`
	Scope          string          `json:"scope" db:"scope"`
	Cohort         string          `json:"cohort" db:"cohort"`
	Direction      string          `json:"direction" db:"direction"` // forward, rollback, restore
	From           string          `json:"from" db:"from_writer"`
	To             string          `json:"to" db:"to_writer"`
	FromEpoch      int64           `json:"from_epoch" db:"from_epoch"`
	ToEpoch        *int64          `json:"to_epoch,omitempty" db:"to_epoch"`
	Phase          string          `json:"phase" db:"phase"`
	Outcome        string          `json:"outcome" db:"outcome"` // advanced, aborted; empty while it is under way
	RollsBack      rail.UUID       `json:"rolls_back" db:"rolls_back"`
	Grace          time.Duration   `json:"grace" db:"grace"`
	Deadline       time.Duration   `json:"deadline" db:"deadline"`
	Window         time.Duration   `json:"window" db:"rollback_window"`
	Budget         time.Duration   `json:"pause_budget" db:"pause_budget"`
	PredictedPause *time.Duration  `json:"predicted_pause,omitempty" db:"predicted_pause"`
	MeasuredPause  *time.Duration  `json:"measured_pause,omitempty" db:"measured_pause"`
	Plan           json.RawMessage `json:"plan" db:"plan"`
	Shadow         json.RawMessage `json:"shadow,omitempty" db:"shadow"`
	Blockers       []Blocker       `json:"blockers" db:"blockers"`
	FinalSequence  *int64          `json:"final_sequence,omitempty" db:"final_sequence"`
	Report         *int64          `json:"report_id,omitempty" db:"report_id"`
	PlannedAt      time.Time       `json:"planned_at" db:"planned_at"`
	ClosedAt       *time.Time      `json:"closed_at,omitempty" db:"closed_at"`
	DrainedAt      *time.Time      `json:"drained_at,omitempty" db:"drained_at"`
	SealedAt       *time.Time      `json:"sealed_at,omitempty" db:"sealed_at"`
	VerifiedAt     *time.Time      `json:"verified_at,omitempty" db:"verified_at"`
	AdvancedAt     *time.Time      `json:"advanced_at,omitempty" db:"advanced_at"`
	AbortedAt      *time.Time      `json:"aborted_at,omitempty" db:"aborted_at"`
	WindowEndsAt   *time.Time      `json:"window_ends_at,omitempty" db:"window_ends_at"`
	CompletedAt    *time.Time      `json:"completed_at,omitempty" db:"completed_at"`
	RetiredAt      *time.Time      `json:"retired_at,omitempty" db:"retired_at"`
	EndedBy        *string         `json:"ended_by,omitempty" db:"ended_by"`
	EndReason      *string         `json:"end_reason,omitempty" db:"end_reason"`
}

const changeColumns = `change_id, scope, cohort, direction, from_writer, to_writer, from_epoch, to_epoch, phase, coalesce(outcome, '') AS outcome,
  rolls_back, grace, deadline, rollback_window, pause_budget, predicted_pause, measured_pause, plan, shadow, blockers, final_sequence, report_id,
  planned_at, closed_at, drained_at, sealed_at, verified_at, advanced_at, aborted_at, window_ends_at, completed_at, retired_at, ended_by, end_reason`

// Blocker is what was in the way of a closing: a transaction, a prepared one (by its
// gid), a lease of a build, or facts that are not published yet.
type Blocker struct {
	Kind        string `json:"kind"` // transaction, prepared, lease, publication
	Lock        string `json:"lock,omitempty"`
	PID         int    `json:"pid,omitempty"`
	GID         string `json:"gid,omitempty"`
	Role        string `json:"role,omitempty"`
	Application string `json:"application,omitempty"`
	State       string `json:"state,omitempty"`
	Run         string `json:"run_id,omitempty"`
	Facts       int64  `json:"facts,omitempty"`
	Since       string `json:"since,omitempty"`
	Until       string `json:"until,omitempty"`
}

// Report is one verification.
type Report struct {
	ID            int64         `json:"report_id" db:"report_id"`
	Change        rail.UUID     `json:"change_id" db:"change_id"`
	MadeAt        time.Time     `json:"made_at" db:"made_at"`
	SealedAt      time.Time     `json:"sealed_at" db:"sealed_at"`
	FinalSequence int64         `json:"final_sequence" db:"final_sequence"`
	Passed        bool          `json:"passed" db:"passed"`
	Matters       int64         `json:"matters" db:"matters"`
	Digest        []byte        `json:"digest" db:"digest"`
	Findings      []Finding     `json:"findings" db:"findings"`
	Took          time.Duration `json:"took" db:"took"`
}

// Finding is one row that breaks what a crossing relies on.
type Finding struct {
	Check  string `json:"check"` // the name of the invariant, or imported, intents_unknown, digests
	Firm   string `json:"firm_id,omitempty"`
	Matter string `json:"matter_id,omitempty"`
	Detail string `json:"detail"`
}

// Hold stops widening until a person releases it.
type Hold struct {
	ID         int64           `json:"id" db:"id"`
	Scope      string          `json:"scope" db:"scope"` // empty: every scope
	Watch      string          `json:"watch" db:"watch"`
	Details    json.RawMessage `json:"details" db:"details"`
	RaisedAt   time.Time       `json:"raised_at" db:"raised_at"`
	ReleasedAt *time.Time      `json:"released_at,omitempty" db:"released_at"`
	ReleasedBy *string         `json:"released_by,omitempty" db:"released_by"`
	Class      *string         `json:"class,omitempty" db:"class"`
	Reason     *string         `json:"reason,omitempty" db:"reason"`
}

func list[T any](ctx context.Context, db pg.DB, what, sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("authority.%s: %w", what, err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	if err != nil {
		return nil, fmt.Errorf("authority.%s: %w", what, err)
	}
	return out, nil
}

func one[T any](ctx context.Context, db pg.DB, what, sql string, args ...any) (out T, err error) {
	found, err := list[T](ctx, db, what, sql, args...)
	if err != nil {
		return out, err
	}
	if len(found) == 0 {
		return out, fmt.Errorf("authority.%s: %w", what, ErrUnknown)
	}
	return found[0], nil
}

// Fences lists every fence by scope.
func Fences(ctx context.Context, db pg.DB) ([]Fence, error) {
	return list[Fence](ctx, db, "Fences", `SELECT `+fenceColumns+` FROM ops.write_fences ORDER BY scope`)
}

// FenceOf is ErrUnknown where the scope has none: it is the rail's.
func FenceOf(ctx context.Context, db pg.DB, scope string) (Fence, error) {
	return one[Fence](ctx, db, "FenceOf("+scope+")", `SELECT `+fenceColumns+` FROM ops.write_fences WHERE scope = $1`, scope)
}

// Writers lists every writer, the rail first.
func Writers(ctx context.Context, db pg.DB) ([]Writer, error) {
	return list[Writer](ctx, db, "Writers", `
SELECT name, kind, database_roles, importer_role, endpoint, status, retired_at FROM ops.writers ORDER BY kind DESC, name`)
}

// Changes lists the newest changes, of one scope or, where it is empty, of all.
func Changes(ctx context.Context, db pg.DB, scope string, limit int) ([]Change, error) {
	return list[Change](ctx, db, "Changes", `SELECT `+changeColumns+` FROM ops.write_fence_changes
 WHERE $1 = '' OR scope = $1 ORDER BY planned_at DESC LIMIT $2`, scope, limit)
}

// ChangeOf is ErrUnknown where there is none of that id.
func ChangeOf(ctx context.Context, db pg.DB, id rail.UUID) (Change, error) {
	return one[Change](ctx, db, "ChangeOf("+id.String()+")", `SELECT `+changeColumns+` FROM ops.write_fence_changes WHERE change_id = $1`, id)
}

// Reports lists the verifications of a change, the newest first.
func Reports(ctx context.Context, db pg.DB, change rail.UUID) ([]Report, error) {
	return list[Report](ctx, db, "Reports", `
SELECT report_id, change_id, made_at, sealed_at, final_sequence, passed, matters, digest, findings, took
  FROM ops.write_fence_reports WHERE change_id = $1 ORDER BY report_id DESC`, change)
}

// Holds lists what stops widening; all: the released ones too.
func Holds(ctx context.Context, db pg.DB, all bool) ([]Hold, error) {
	return list[Hold](ctx, db, "Holds", `
SELECT id, coalesce(scope, '') AS scope, watch, details, raised_at, released_at, released_by, class, reason
  FROM ops.write_fence_holds WHERE $1 OR released_at IS NULL ORDER BY id DESC LIMIT 1000`, all)
}
