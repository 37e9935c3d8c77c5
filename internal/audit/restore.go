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

// Rewind is what the rows say after a restore or a lossy failover: whose server this
// is, how far back the ledger ends, and what is unfinished in it. What is missing
// altogether no row can say. Nil times mean that there is none.
type Rewind struct {
	At      time.Time     `json:"at"` // the database's clock
	Ledger  outbox.Ledger `json:"ledger"`
	Changed bool          `json:"ledger_changed"` // the server is not the one last seen
	Bumped  time.Time     `json:"epoch_since"`    // when the epoch was raised last, or the schema was made

	// Turned is when the server's timeline began or, where that cannot be seen, when the
	// server was started. While Changed is true rows are asked for from before it: later
	// ones were written after the rewind and do not say how far back the ledger went.
	Turned         time.Time `json:"server_since"`
	TimelineSeen   bool      `json:"timeline_seen"`
	NewestRows     `json:"newest"`
	Ends           *time.Time `json:"ends_at,omitempty"`    // the newest of all rows
	Since          *time.Time `json:"bump_since,omitempty"` // Ends less rewindMargin
	FactsSince     int64      `json:"facts_since"`          // that a bump since then would have judged again
	Live           int64      `json:"live_claims"`          // that daemons may hold, the canary's too
	OldestLive     *time.Time `json:"oldest_live_claim,omitempty"`
	Undecided      int64      `json:"undecided_facts"`
	Orphans        int64      `json:"receipts_without_fact"` // decided since then
	Owed           int64      `json:"owed_matters"`          // parked included
	OldestOwed     *time.Time `json:"oldest_owed,omitempty"`
	Behind         int64      `json:"behind_matters"`  // frame older than a fact that was demanded, and nothing owed
	DispatchPaused bool       `json:"dispatch_paused"` // for all firms
}

// NewestRows are the latest times of each kind of row.
type NewestRows struct {
	Fact    *time.Time `json:"fact,omitempty"`
	Receipt *time.Time `json:"receipt,omitempty"`
	Run     *time.Time `json:"run,omitempty"`
	Frame   *time.Time `json:"frame,omitempty"`
}

// rewindMargin is for what was under way: a row bears the time of its statement, and
// may have been committed minutes after a row that is younger.
const rewindMargin = 5 * time.Minute

// ReadRewind reads it all in one snapshot. It reads whole tables where only a summary
// orders them by time.
func ReadRewind(ctx context.Context, db pg.DB) (Rewind, error) {
	var r Rewind
	err := snapshot(ctx, db, 0, func(tx pgx.Tx) (err error) {
		if r.Ledger, err = outbox.ReadLedger(ctx, tx); err != nil {
			return err
		}
		r.Changed = r.Ledger.Changed()
		if err := r.server(ctx, tx); err != nil {
			return err
		}
		if err := r.newest(ctx, tx); err != nil {
			return err
		}
		return r.unfinished(ctx, tx)
	})
	if err != nil {
		return Rewind{}, fmt.Errorf("audit.ReadRewind: %w", err)
	}
	return r, nil
}

const (
	turnedSQL = `
SELECT clock_timestamp(), pg_postmaster_start_time(), l.changed_at, has_function_privilege('pg_catalog.pg_ls_waldir()', 'EXECUTE')
  FROM ops.ledger l`
	// The end of a recovery writes the history of the timeline that it begins. The first
	// timeline has none.
	historySQL = `
SELECT max(modification) FROM pg_catalog.pg_ls_waldir()
 WHERE name = lpad(upper(to_hex($1::int)), 8, '0') || '.history'`
)

func (r *Rewind) server(ctx context.Context, tx pgx.Tx) error {
	var maySee bool
	if err := tx.QueryRow(ctx, turnedSQL).Scan(&r.At, &r.Turned, &r.Bumped, &maySee); err != nil {
		return err
	}
	if !maySee {
		return nil
	}
	var began *time.Time
	if err := tx.QueryRow(ctx, historySQL, r.Ledger.ServerTimeline).Scan(&began); err != nil {
		return err
	}
	if began != nil {
		r.Turned, r.TimelineSeen = *began, true
	}
	return nil
}

const newestSQL = `
SELECT (SELECT max(recorded_at) FROM ops.domain_event_outbox WHERE recorded_at < $1),
       (SELECT max(decided_at) FROM ops.trigger_receipts WHERE decided_at < $1),
       (SELECT max(greatest(started_at, finished_at)) FROM ops.matter_frame_runs WHERE greatest(started_at, finished_at) < $1),
       (SELECT max(built_at) FROM ops.matter_frames WHERE built_at < $1)`

func (r *Rewind) newest(ctx context.Context, tx pgx.Tx) (err error) {
	before := r.At
	if r.Changed {
		before = r.Turned
	}
	if r.NewestRows, err = one[NewestRows](ctx, tx, newestSQL, before); err != nil {
		return err
	}
	for _, t := range []*time.Time{r.Fact, r.Receipt, r.Run, r.Frame} {
		if t != nil && (r.Ends == nil || t.After(*r.Ends)) {
			r.Ends = t
		}
	}
	if r.Ends != nil {
		since := r.Ends.Add(-rewindMargin)
		r.Since = &since
	}
	return nil
}

// A frame is built after every fact that it holds, on the clock of one database.
const unfinishedSQL = `
SELECT (SELECT count(*) FROM ops.domain_event_outbox WHERE recorded_at >= $1 AND event_name NOT IN ('brief.landed', 'brief.parked')),
       (SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'running'),
       (SELECT min(claimed_at) FROM ops.matter_frame_jobs WHERE run_status = 'running'),
       (SELECT count(*) FROM ops.outbox_undecided),
       (SELECT count(*) FROM ops.trigger_receipts r WHERE r.decided_at >= $1
           AND NOT EXISTS (SELECT 1 FROM ops.domain_event_outbox o WHERE o.event_id = r.event_id)),
       (SELECT count(*) FROM ops.matter_frame_jobs WHERE owed_since IS NOT NULL),
       (SELECT min(owed_since) FROM ops.matter_frame_jobs WHERE owed_since IS NOT NULL),
       (SELECT count(DISTINCT (o.firm_id, o.matter_id))
          FROM ops.domain_event_outbox o
          JOIN ops.trigger_receipts r ON r.event_id = o.event_id AND r.verdict = 'demanded'
          LEFT JOIN ops.matter_frame_jobs j ON j.firm_id = o.firm_id AND j.matter_id = o.matter_id
          LEFT JOIN ops.matter_frames f ON f.firm_id = j.firm_id AND f.matter_id = j.matter_id AND f.generation = j.landed_generation
         WHERE o.recorded_at >= $1 AND j.owed_since IS NULL AND (f.built_at > o.recorded_at) IS NOT TRUE),
       EXISTS (SELECT 1 FROM ops.dispatch_pauses WHERE firm_id IS NULL)`

func (r *Rewind) unfinished(ctx context.Context, tx pgx.Tx) error {
	return tx.QueryRow(ctx, unfinishedSQL, r.Since).Scan(&r.FactsSince, &r.Live, &r.OldestLive, &r.Undecided, &r.Orphans,
		&r.Owed, &r.OldestOwed, &r.Behind, &r.DispatchPaused)
}

const answeredSQL = `
SELECT k.firm_id, k.matter_id
  FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS k (firm_id, matter_id, told)
 WHERE EXISTS (SELECT 1 FROM ops.matter_frame_jobs j
                WHERE j.firm_id = k.firm_id AND j.matter_id = k.matter_id AND j.owed_since IS NOT NULL)
    OR EXISTS (SELECT 1 FROM ops.matter_frame_runs r
                WHERE r.firm_id = k.firm_id AND r.matter_id = k.matter_id AND r.started_at > k.told AND r.outcome = 'landed')`

// Told is a matter of which something was said that the ledger does not hold.
type Told struct {
	Key rail.Key
	At  time.Time // when it was said
}

// Answered are those matters that owe a build now, or got a frame that was begun after
// what was said of them: nothing need be done about it any more.
func Answered(ctx context.Context, db pg.DB, told []Told) (map[rail.Key]bool, error) {
	var firms, matters []rail.UUID
	var at []time.Time
	for _, t := range told {
		firms, matters, at = append(firms, t.Key.Firm), append(matters, t.Key.Matter), append(at, t.At)
	}
	keys, err := list[rail.Key](ctx, db, answeredSQL, firms, matters, at)
	if err != nil {
		return nil, fmt.Errorf("audit.Answered(%d matters): %w", len(told), err)
	}
	out := make(map[rail.Key]bool, len(keys))
	for _, k := range keys {
		out[k] = true
	}
	return out, nil
}
