package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Counts are jobs by state, the canary's left out.
type Counts struct {
	Idle    int64 `json:"idle"`
	Queued  int64 `json:"queued"`
	Running int64 `json:"running"`
	Parked  int64 `json:"parked"`
	// Elsewhere are queued matters whose scope another writer holds, or that is closed
	// for a crossing: they wait for it, and Queued leaves them out.
	Elsewhere int64 `json:"elsewhere"`
	// IdleEstimated says that Idle is the planner's estimate of the table less the
	// others: counting a million idle matters would read them all.
	IdleEstimated bool `json:"idle_estimated"`
}

// FirmStatus is what one firm waits for.
type FirmStatus struct {
	Firm       rail.UUID  `json:"firm_id"`
	Queued     int64      `json:"queued"`
	Running    int64      `json:"running"`
	Parked     int64      `json:"parked"`
	OldestOwed *time.Time `json:"oldest_owed,omitempty"`
}

// Status is the whole ledger at one instant. Nil times mean that there is none.
type Status struct {
	At               time.Time     `json:"at"` // the database's clock
	Jobs             Counts        `json:"jobs"`
	OldestOwed       *time.Time    `json:"oldest_owed,omitempty"` // of owed_since, parked included
	OldestOwedKey    *rail.Key     `json:"oldest_owed_matter,omitempty"`
	OldestRunning    *time.Time    `json:"oldest_running,omitempty"` // of claimed_at
	OldestRunningKey *rail.Key     `json:"oldest_running_matter,omitempty"`
	Undecided        int64         `json:"undecided_facts"`
	OldestUndecided  *time.Time    `json:"oldest_undecided,omitempty"`
	Pauses           []PauseRow    `json:"pauses"`
	Ledger           outbox.Ledger `json:"ledger"`
	LedgerChanged    bool          `json:"ledger_changed"` // the server is not the one last seen
	SchemaVersion    int           `json:"schema_version"`
	CanaryLanded     *time.Time    `json:"canary_last_success,omitempty"`
	// Builder is set where claims are handed back because of the builder.
	Builder *BuilderTrouble `json:"builder_at_fault,omitempty"`
	Firms   []FirmStatus    `json:"firms"` // the ten with most waiting, by queued
	// Pending is facts not yet published; only where publishing is required.
	Pending       *int64     `json:"pending_facts,omitempty"`
	OldestPending *time.Time `json:"oldest_pending,omitempty"`
}

// figures is what the one query of the gauges answers, in its order.
type figures struct {
	At                            time.Time
	Idle, Queued, Running, Parked int64
	Elsewhere                     int64
	Estimated                     bool
	OldestOwed, OldestRunning     *time.Time
	OldestLease                   *time.Time
	Undecided                     int64
	OldestUndecided               *time.Time
	Unheard                       int64
	CanaryLanded                  *time.Time
	Paused                        int64
	Pending                       *int64
	OldestPending                 *time.Time
}

// Up to 32 MiB of jobs idle ones are counted, above that estimated. What is owed
// is counted through the partial indexes, which idle matters are not in. The parts
// of a CASE that are not chosen are not run. A parked fact waits for a person and
// says nothing of the relay: it is pending, and not the oldest that is. What another
// writer has authority over is counted as elsewhere, and waits for nobody here.
const figuresSQL = `
WITH fence AS MATERIALIZED (SELECT ops.buckets_elsewhere() AS away)
SELECT clock_timestamp(),
       CASE WHEN c.reltuples < 0 OR pg_relation_size(c.oid) <= 33554432
            THEN (SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'idle' AND firm_id <> $1)
            ELSE greatest(0, (c.reltuples / greatest(c.relpages, 1) * (pg_relation_size(c.oid) / 8192))::bigint
                             - (SELECT count(*) FROM ops.matter_frame_jobs WHERE owed_since IS NOT NULL)) END,
       (SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'queued' AND firm_id <> $1 AND bucket <> ALL (fence.away)),
       (SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'running' AND firm_id <> $1),
       (SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'parked' AND firm_id <> $1),
       CASE WHEN fence.away = '{}' THEN 0 ELSE
         (SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'queued' AND firm_id <> $1 AND bucket = ANY (fence.away)) END,
       NOT (c.reltuples < 0 OR pg_relation_size(c.oid) <= 33554432),
       (SELECT owed_since FROM ops.matter_frame_jobs WHERE owed_since IS NOT NULL AND firm_id <> $1 AND bucket <> ALL (fence.away) ORDER BY owed_since LIMIT 1),
       (SELECT min(claimed_at) FROM ops.matter_frame_jobs WHERE run_status = 'running' AND firm_id <> $1),
       (SELECT min(lease_expires_at) FROM ops.matter_frame_jobs WHERE run_status = 'running' AND firm_id <> $1),
       u.n, u.oldest,
       (SELECT count(*) FROM ops.outbox_undecided n JOIN ops.domain_event_outbox o ON o.event_id = n.event_id
         WHERE n.recorded_at < clock_timestamp() - interval '1 minute' AND o.published_at IS NOT NULL),
       (SELECT built_at FROM ops.matter_frames WHERE firm_id = $1 AND matter_id = $2 ORDER BY generation DESC LIMIT 1),
       (SELECT count(*) FROM ops.dispatch_pauses),
       CASE WHEN l.publishing = 'required' THEN (SELECT count(*) FROM ops.domain_event_outbox WHERE published_at IS NULL) END,
       CASE WHEN l.publishing = 'required' THEN (SELECT min(recorded_at) FROM ops.domain_event_outbox o
                                              WHERE published_at IS NULL AND NOT EXISTS (
                                                SELECT 1 FROM ops.outbox_failures f WHERE f.event_id = o.event_id AND f.parked_at IS NOT NULL)) END
  FROM fence, pg_class c, ops.ledger l, (SELECT count(*) AS n, min(recorded_at) AS oldest FROM ops.outbox_undecided) u
 WHERE c.oid = 'ops.matter_frame_jobs'::regclass`

func readFigures(ctx context.Context, db pg.DB) (figures, error) {
	return one[figures](ctx, db, figuresSQL, rail.Canary().Firm, rail.Canary().Matter)
}

// ReadStatus reads the whole ledger's state in one snapshot.
func ReadStatus(ctx context.Context, db pg.DB) (Status, error) {
	var s Status
	err := snapshot(ctx, db, 0, func(tx pgx.Tx) (err error) {
		f, err := readFigures(ctx, tx)
		if err != nil {
			return err
		}
		s = f.status()
		if s.Ledger, err = outbox.ReadLedger(ctx, tx); err != nil {
			return err
		}
		s.LedgerChanged = s.Ledger.Changed()
		if s.SchemaVersion, err = pg.Version(ctx, tx, "ops"); err != nil {
			return err
		}
		return s.details(ctx, tx)
	})
	if err != nil {
		return Status{}, fmt.Errorf("audit.ReadStatus: %w", err)
	}
	return s, nil
}

func (f figures) status() Status {
	return Status{
		At:         f.At,
		Jobs:       Counts{Idle: f.Idle, Queued: f.Queued, Running: f.Running, Parked: f.Parked, Elsewhere: f.Elsewhere, IdleEstimated: f.Estimated},
		OldestOwed: f.OldestOwed, OldestRunning: f.OldestRunning,
		Undecided: f.Undecided, OldestUndecided: f.OldestUndecided,
		CanaryLanded: f.CanaryLanded, Pending: f.Pending, OldestPending: f.OldestPending,
	}
}

const (
	oldestOwedSQL = `
SELECT firm_id, matter_id FROM ops.matter_frame_jobs
 WHERE owed_since IS NOT NULL AND firm_id <> $1 AND bucket <> ALL ((SELECT ops.buckets_elsewhere())::smallint[]) ORDER BY owed_since LIMIT 1`
	oldestRunningSQL = `
SELECT firm_id, matter_id FROM ops.matter_frame_jobs
 WHERE run_status = 'running' AND firm_id <> $1 ORDER BY claimed_at LIMIT 1`
	firmsSQL = `
SELECT firm_id, count(*) FILTER (WHERE run_status = 'queued') AS queued, count(*) FILTER (WHERE run_status = 'running'),
       count(*) FILTER (WHERE run_status = 'parked'), min(owed_since)
  FROM ops.matter_frame_jobs
 WHERE owed_since IS NOT NULL AND firm_id <> $1
 GROUP BY firm_id ORDER BY queued DESC, min(owed_since) LIMIT 10`
)

// details are the names behind the figures.
func (s *Status) details(ctx context.Context, tx pgx.Tx) (err error) {
	canary := rail.Canary().Firm
	if s.OldestOwedKey, err = keyOrNone(ctx, tx, oldestOwedSQL, canary); err != nil {
		return err
	}
	if s.OldestRunningKey, err = keyOrNone(ctx, tx, oldestRunningSQL, canary); err != nil {
		return err
	}
	if s.Pauses, err = list[PauseRow](ctx, tx, pauseSQL+` ORDER BY paused_at`); err != nil {
		return err
	}
	if s.Builder, err = ReadBuilderTrouble(ctx, tx); err != nil {
		return err
	}
	s.Firms, err = list[FirmStatus](ctx, tx, firmsSQL, canary)
	return err
}

func keyOrNone(ctx context.Context, db pg.DB, sql string, args ...any) (*rail.Key, error) {
	keys, err := list[rail.Key](ctx, db, sql, args...)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	return &keys[0], nil
}
