package audit

import (
	"context"
	"fmt"
	"time"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// JobRow is the one ledger row of a matter. Nil times are NULL.
type JobRow struct {
	rail.Key
	Status          string     `json:"run_status"` // idle, queued, running, parked
	Requested       int64      `json:"requested_generation"`
	Claimed         int64      `json:"claimed_generation"`
	Landed          int64      `json:"landed_generation"`
	RebuildNeeded   bool       `json:"rebuild_needed"`
	ClaimedAt       *time.Time `json:"claimed_at,omitempty"`
	LeaseExpiresAt  *time.Time `json:"lease_expires_at,omitempty"`
	RunID           rail.UUID  `json:"run_id,omitzero"`
	Attempts        int        `json:"attempts"`
	DemandsOwed     int64      `json:"demands_owed"`
	OwedSince       *time.Time `json:"owed_since,omitempty"`
	RebuildSince    *time.Time `json:"rebuild_since,omitempty"`
	RebuildPriority *int16     `json:"rebuild_priority,omitempty"`
	QueuedAt        *time.Time `json:"queued_at,omitempty"`
	NotBefore       *time.Time `json:"not_before,omitempty"`
	Priority        int16      `json:"priority"` // 0 interactive, 1 standard, 2 bulk; of an idle job that of its last demand, which means nothing
	LastError       string     `json:"last_error,omitempty"`
	ParkedBy        string     `json:"parked_by,omitempty"` // failures or operator
	ParkedReason    string     `json:"parked_reason,omitempty"`
	AuthorityEpoch  int64      `json:"authority_epoch"`
}

const jobSQL = `
SELECT firm_id, matter_id, run_status, requested_generation, claimed_generation, landed_generation, rebuild_needed,
       claimed_at, lease_expires_at, run_id, attempts, demands_owed, owed_since, rebuild_since, rebuild_priority,
       queued_at, not_before, priority, coalesce(last_error, '') AS last_error,
       coalesce(parked_by, '') AS parked_by, coalesce(parked_reason, '') AS parked_reason,
       authority_epoch
  FROM ops.matter_frame_jobs`

// ReadJob reads the job of a matter; ErrNotFound where nothing was ever demanded.
func ReadJob(ctx context.Context, db pg.DB, k rail.Key) (JobRow, error) {
	j, err := one[JobRow](ctx, db, jobSQL+` WHERE firm_id = $1 AND matter_id = $2`, k.Firm, k.Matter)
	if err != nil {
		return JobRow{}, fmt.Errorf("audit.ReadJob(%s): %w", k, err)
	}
	return j, nil
}

// RunRow is one attempt.
type RunRow struct {
	RunID rail.UUID `json:"run_id"`
	rail.Key
	Generation  int64      `json:"generation"`
	Attempt     int        `json:"attempt"`
	RetryOf     rail.UUID  `json:"retry_of,omitzero"`
	Worker      string     `json:"worker"`
	Builder     string     `json:"builder"`
	StartedAt   time.Time  `json:"started_at"`
	FinishedAt  *time.Time `json:"finished_at,omitempty"`
	Outcome     string     `json:"outcome"` // running, landed, failed, expired, fenced, released, cancelled
	ErrorKind   string     `json:"error_kind,omitempty"`
	ErrorText   string     `json:"error_text,omitempty"`
	Demands     int64      `json:"demands"`
	ModelCalls  *int64     `json:"model_calls,omitempty"`
	Tokens      *int64     `json:"tokens,omitempty"`
	CostUSD     string     `json:"cost_usd,omitempty"` // decimal number
	TraceParent string     `json:"traceparent,omitempty"`
	LateWriteAt *time.Time `json:"late_write_at,omitempty"` // when a zombie's write was refused
}

const runSQL = `
SELECT run_id, firm_id, matter_id, generation, attempt, retry_of, worker, builder, started_at, finished_at, outcome,
       coalesce(error_kind, ''), coalesce(error_text, ''), demands, model_calls, tokens, coalesce(cost_usd::text, ''),
       coalesce(traceparent, ''), late_write_at
  FROM ops.matter_frame_runs`

// RunFilter narrows Runs; zero fields do not.
type RunFilter struct {
	Firm    rail.UUID
	Matter  rail.UUID // with or without a firm
	Outcome string    // exact word of the run row
	Worker  string    // exact name
	Late    bool      // only runs whose late write was refused: zombies
	Since   time.Time // started at or after
	Limit   int       // 0 for 50
}

const runFilter = `
 WHERE ($1::uuid IS NULL OR firm_id = $1) AND ($2::uuid IS NULL OR matter_id = $2) AND ($3 = '' OR outcome = $3)
   AND ($4 = '' OR worker = $4) AND (NOT $5::bool OR late_write_at IS NOT NULL)
   AND started_at >= coalesce($6::timestamptz, '-infinity')
 ORDER BY started_at DESC, generation DESC LIMIT $7`

// Runs lists attempts, the latest started first.
func Runs(ctx context.Context, db pg.DB, f RunFilter) ([]RunRow, error) {
	limit := orDefault(f.Limit)
	bounded := !f.Firm.IsZero() || !f.Since.IsZero()
	rows, err := widening(bounded, f.Since, limit, func(since *time.Time) ([]RunRow, error) {
		return list[RunRow](ctx, db, runSQL+runFilter, f.Firm, f.Matter, f.Outcome, f.Worker, f.Late, since, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("audit.Runs: %w", err)
	}
	return rows, nil
}

// ReadRun reads one attempt; ErrNotFound where there is none of that id.
func ReadRun(ctx context.Context, db pg.DB, id rail.UUID) (RunRow, error) {
	r, err := one[RunRow](ctx, db, runSQL+` WHERE run_id = $1`, id)
	if err != nil {
		return RunRow{}, fmt.Errorf("audit.ReadRun(%s): %w", id, err)
	}
	return r, nil
}

// FrameRow is a frame without its content.
type FrameRow struct {
	rail.Key
	Generation     int64     `json:"generation"`
	RunID          rail.UUID `json:"run_id"`
	Source         string    `json:"source"` // rail or import
	SchemaVersion  string    `json:"schema_version"`
	BuilderVersion string    `json:"builder_version"`
	Digest         string    `json:"digest"` // SHA-256 of the canonical form, hexadecimal
	Bytes          int64     `json:"bytes"`  // as stored, after compression
	BuiltAt        time.Time `json:"built_at"`
}

const frameSQL = `
SELECT firm_id, matter_id, generation, run_id, source, schema_version, builder_version, encode(digest, 'hex'),
       ops.frame_bytes(firm_id, matter_id, generation), built_at
  FROM ops.matter_frames`

// Frames lists the kept frames of a matter, the newest first.
func Frames(ctx context.Context, db pg.DB, k rail.Key) ([]FrameRow, error) {
	rows, err := list[FrameRow](ctx, db, frameSQL+` WHERE firm_id = $1 AND matter_id = $2 ORDER BY generation DESC`, k.Firm, k.Matter)
	if err != nil {
		return nil, fmt.Errorf("audit.Frames(%s): %w", k, err)
	}
	return rows, nil
}

// AuditRow is one operator's act.
type AuditRow struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Action  string    `json:"action"` // matter.park, dispatch.pause, epoch.bump and so on
	Target  string    `json:"target"` // firm/matter, a firm, all, ledger
	Reason  string    `json:"reason"`
	Details string    `json:"details,omitempty"` // JSON
}

const auditSQL = `SELECT id, at, actor, action, target, reason, coalesce(details::text, '') FROM ops.audit_log`

// AuditRows lists operators' acts, the latest first; an empty target means all.
func AuditRows(ctx context.Context, db pg.DB, target string, limit int) ([]AuditRow, error) {
	rows, err := list[AuditRow](ctx, db, auditSQL+` WHERE $1 = '' OR target = $1 ORDER BY id DESC LIMIT $2`, target, orDefault(limit))
	if err != nil {
		return nil, fmt.Errorf("audit.AuditRows(%q): %w", target, err)
	}
	return rows, nil
}

// PauseRow is a pause of dispatch.
type PauseRow struct {
	Firm     rail.UUID `json:"firm_id,omitzero"` // the nil UUID for all firms
	PausedBy string    `json:"paused_by"`
	Reason   string    `json:"reason"`
	PausedAt time.Time `json:"paused_at"`
}

const pauseSQL = `SELECT firm_id, paused_by, reason, paused_at FROM ops.dispatch_pauses`

// FindMatter returns the keys that have this matter id: operators often know no
// more, and two firms may use the same one. It looks at jobs and, where none has
// it, at facts; without a firm to go by it reads the table whole.
func FindMatter(ctx context.Context, db pg.DB, matter rail.UUID) ([]rail.Key, error) {
	for _, sql := range []string{
		`SELECT firm_id, matter_id FROM ops.matter_frame_jobs WHERE matter_id = $1 ORDER BY 1 LIMIT 100`,
		`SELECT DISTINCT firm_id, matter_id FROM ops.domain_event_outbox WHERE matter_id = $1 ORDER BY 1 LIMIT 100`,
	} {
		keys, err := list[rail.Key](ctx, db, sql, matter)
		if err != nil {
			return nil, fmt.Errorf("audit.FindMatter(%s): %w", matter, err)
		}
		if len(keys) > 0 {
			return keys, nil
		}
	}
	return nil, nil
}
