package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/rail"
)

// slowBuildSQL is the 99th percentile of the builds of a day, the canary's left
// out, in seconds.
const slowBuildSQL = `
SELECT coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM finished_at - started_at)), 0)::float8
  FROM ops.matter_frame_runs
 WHERE started_at > statement_timestamp() - interval '1 day' AND outcome = 'landed' AND firm_id <> $1`

func leaseAndBuilds(ctx context.Context, tx pgx.Tx, o DoctorOptions) (Diagnosis, error) {
	if o.Lease == 0 {
		return Diagnosis{}, errSkip
	}
	s, err := value[float64](ctx, tx, slowBuildSQL, rail.Canary().Firm)
	if err != nil {
		return Diagnosis{}, err
	}
	slow := time.Duration(s * float64(time.Second))
	if !o.Renew && slow*3/2 > o.Lease {
		return found(Warn, "renew leases (lease.renew), or make the lease longer than the longest build",
			"leases of %s are not renewed, and one build in a hundred takes %s or longer", rounded(o.Lease), rounded(slow))
	}
	if o.BuilderTimeout > 0 && slow > o.BuilderTimeout*8/10 {
		return found(Warn, "raise builder.timeout, or make the slow builds faster",
			"one build in a hundred takes %s or longer, builder.timeout is %s", rounded(slow), rounded(o.BuilderTimeout))
	}
	return found(OK, "", "lease %s, 99 of 100 builds end within %s", rounded(o.Lease), rounded(slow))
}

func retention(_ context.Context, _ pgx.Tx, o DoctorOptions) (Diagnosis, error) {
	if o.ReceiptsRetention == 0 || o.OutboxRetention == 0 {
		return Diagnosis{}, errSkip
	}
	return found(worse(o.ReceiptsRetention < o.OutboxRetention, Warn), "keep receipts at least as long as facts: a nudge may still return",
		"receipts are kept %s, facts %s", rounded(o.ReceiptsRetention), rounded(o.OutboxRetention))
}

func parkedMatters(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	const sql = `
SELECT count(*) FILTER (WHERE parked_by = 'failures'), count(*) FILTER (WHERE parked_by = 'operator')
  FROM ops.matter_frame_jobs WHERE run_status = 'parked'`
	var failures, operator int
	if err := tx.QueryRow(ctx, sql).Scan(&failures, &operator); err != nil {
		return Diagnosis{}, err
	}
	return found(worse(failures+operator > 0, Warn), "`railctl explain MATTER` says why; `railctl matter unpark` releases",
		"%d parked after failures, %d by operators", failures, operator)
}

const undecidedAgeSQL = `
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(recorded_at)), 0)::float8,
       (SELECT event_id FROM ops.outbox_undecided ORDER BY recorded_at, seq LIMIT 1)
  FROM ops.outbox_undecided`

func undecidedAge(ctx context.Context, tx pgx.Tx, o DoctorOptions) (Diagnosis, error) {
	var n int64
	var s float64
	var oldest *rail.UUID
	if err := tx.QueryRow(ctx, undecidedAgeSQL).Scan(&n, &s, &oldest); err != nil {
		return Diagnosis{}, err
	}
	if n == 0 || oldest == nil {
		return found(OK, "", "no fact is undecided")
	}
	age := time.Duration(s * float64(time.Second))
	state := worse(age > o.TriggerGrace+time.Minute, Warn)
	if age > o.TriggerGrace+5*time.Minute {
		state = Fail
	}
	return found(state, fmt.Sprintf("is a worker running, and does its trigger log errors? `railctl explain %s` tells of the oldest", oldest),
		"%s undecided; the oldest, event %s, was recorded %s ago", plural(n, "fact", "facts"), oldest, rounded(age))
}

// A worker that lives claims, if only for the canary; what it leaves behind is runs.
const workersSQL = `
SELECT count(*) FILTER (WHERE run_status = 'queued' AND not_before < clock_timestamp() - interval '1 minute'
                          AND bucket <> ALL ((SELECT ops.buckets_elsewhere())::smallint[])),
       coalesce(extract(epoch FROM clock_timestamp() - (SELECT max(r.started_at) FROM ops.matter_frame_runs r
                 WHERE r.started_at > statement_timestamp() - interval '1 hour')), 3600)::float8
  FROM ops.matter_frame_jobs WHERE owed_since IS NOT NULL`

func workersAlive(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	var waiting int64
	var s float64
	if err := tx.QueryRow(ctx, workersSQL).Scan(&waiting, &s); err != nil {
		return Diagnosis{}, err
	}
	idle := time.Duration(s * float64(time.Second))
	bad := waiting > 0 && idle > 5*time.Minute
	return found(worse(bad, Fail), "start a worker, or look at what its log says of the builder; see dispatch_pauses too",
		"%s ready for over a minute, last claim %s ago or longer", plural(waiting, "matter is", "matters are"), rounded(idle))
}

func pausesHeld(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	const sql = `SELECT count(firm_id), coalesce(bool_or(firm_id IS NULL), false) FROM ops.dispatch_pauses`
	var firms int64
	var all bool
	if err := tx.QueryRow(ctx, sql).Scan(&firms, &all); err != nil {
		return Diagnosis{}, err
	}
	return found(worse(firms > 0 || all, Warn), "`railctl status` names the pauses; `railctl dispatch resume` ends one",
		"%s", pausesText(firms, all))
}

func pausesText(firms int64, all bool) string {
	of := plural(firms, "firm", "firms")
	switch {
	case all && firms > 0:
		return "dispatch is paused for every firm, and for " + of + " by a pause of its own"
	case all:
		return "dispatch is paused for every firm"
	case firms > 0:
		return "dispatch is paused for " + of
	}
	return "dispatch is not paused"
}

const canaryLandedSQL = `
SELECT coalesce((SELECT extract(epoch FROM clock_timestamp() - built_at) FROM ops.matter_frames
                  WHERE firm_id = $1 AND matter_id = $2 ORDER BY generation DESC LIMIT 1), -1)::float8`

func canaryLanded(ctx context.Context, tx pgx.Tx, o DoctorOptions) (Diagnosis, error) {
	if o.CanaryEvery == 0 {
		return Diagnosis{}, errSkip
	}
	s, err := value[float64](ctx, tx, canaryLandedSQL, rail.Canary().Firm, rail.Canary().Matter)
	if err != nil {
		return Diagnosis{}, err
	}
	if s < 0 {
		return found(Warn, "no worker has run with a canary yet", "the canary has never landed")
	}
	age := time.Duration(s * float64(time.Second))
	return found(worse(age > 5*o.CanaryEvery+time.Minute, Fail), "no fact becomes a frame right now: are workers running? see dispatch_pauses",
		"the canary landed %s ago, it is asked every %s", rounded(age), rounded(o.CanaryEvery))
}

// Where publishing is required, retention waits for it: a relay that never ran
// would let the outbox grow for ever. Recent facts are enough to tell.
const publishingSQL = `
SELECT l.publishing = 'required',
       count(o.event_id), count(o.published_at)
  FROM ops.ledger l
  LEFT JOIN ops.domain_event_outbox o ON l.publishing = 'required'
        AND o.recorded_at > statement_timestamp() - interval '1 hour' AND o.recorded_at < statement_timestamp() - interval '5 minutes'
 GROUP BY l.publishing`

func publishing(ctx context.Context, tx pgx.Tx, _ DoctorOptions) (Diagnosis, error) {
	var required bool
	var facts, published int64
	if err := tx.QueryRow(ctx, publishingSQL).Scan(&required, &facts, &published); err != nil {
		return Diagnosis{}, err
	}
	if !required {
		return found(OK, "", "publishing is not required: the ledger alone serves")
	}
	return found(worse(facts > 0 && published == 0, Fail), "start the relay, or `railctl outbox publishing none` where none is meant to run",
		"publishing is required; of the last hour's %s older than 5 minutes %d were published", plural(facts, "fact", "facts"), published)
}
