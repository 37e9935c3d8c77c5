package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"briefrail/internal/frames"
	"briefrail/internal/jobs"
	"briefrail/internal/model/specs"
	"briefrail/internal/pg"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// database is one of the tests' own, with a session for the workers and one that
// stands for what no program does: a failover, which no guard can refuse.
type database struct {
	*pgtest.DB
	work     *wire
	failover *pgx.Conn
	frame    runs.Landing // what every build returns, without a claim
	attempts int          // before a job is parked
	patience time.Duration
	walked   int
}

func newDatabase(t *testing.T, attempts int) *database {
	t.Helper()
	db := &database{DB: pgtest.New(t), attempts: attempts}
	db.work = &wire{Conn: session(t, db.DSN)}
	db.failover = session(t, db.DSN)
	if _, err := db.failover.Exec(t.Context(), `SET session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	db.builds(t, `{"brief":"conformance"}`)
	return db
}

// builds says what every build returns from now on.
func (db *database) builds(t *testing.T, json string) {
	t.Helper()
	checked, err := frames.Check([]byte(json), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	db.frame = runs.Landing{Frame: runs.Frame{JSON: []byte(json), SchemaVersion: "test/1", BuilderVersion: "test/1"}, Digest: checked.Digest}
}

func session(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pg.Connect(t.Context(), pg.Options{DSN: dsn, ApplicationName: "conformance"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// matter is one walk through the model, on a matter of its own.
type matter struct {
	db      *database
	key     rail.Key
	workers [specs.MaxWorkers]*worker
	now     tables

	// what no table can say
	asked    uint8              // demands made
	dead     map[rail.UUID]bool // runs of workers that crashed while they held the claim
	wrong    specs.Wrong        // seen between two looks at the tables
	image    string             // of the row before its last claim
	outcomes map[rail.UUID]string
	parkings int
}

// worker is one that holds, or believes to hold, a claim.
type worker struct {
	claim   runs.Claimed
	seen    uint8
	built   bool
	landing *landing // nil before it begins
}

func (w *worker) pc() specs.WorkerPC {
	switch {
	case w == nil:
		return specs.WorkerIdle
	case !w.built:
		return specs.WorkerBuilding
	case w.landing != nil && w.landing.where == atQuestion:
		return specs.WorkerUnsure
	default:
		return specs.WorkerBuilt
	}
}

func (db *database) newMatter(ctx context.Context) (*matter, error) {
	m := &matter{
		db: db, key: rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()},
		dead: map[rail.UUID]bool{}, outcomes: map[rail.UUID]string{},
	}
	var err error
	m.now, err = m.read(ctx)
	return m, err
}

// difference is what the real code did otherwise than the model.
type difference struct {
	at  string // what was done
	err error
}

func (d *difference) Error() string { return d.at + ": " + d.err.Error() }

func (d *difference) Unwrap() error { return d.err }

// step takes one edge on the real code and compares where it led. The error is a
// *difference.
func (m *matter) step(ctx context.Context, a specs.LedgerAct, from, to specs.LedgerState) error {
	if err := m.compare(ctx, a, from, to); err != nil {
		return &difference{a.Kind.String(), err}
	}
	return nil
}

func (m *matter) compare(ctx context.Context, a specs.LedgerAct, from, to specs.LedgerState) error {
	before := m.now
	acted := m.workers[a.Who]
	if err := m.act(ctx, a, to); err != nil {
		return err
	}
	var err error
	if m.now, err = m.read(ctx); err != nil {
		return err
	}
	m.watch(&before, &m.now, acted)
	if from.Row.Status != specs.StatusParked && to.Row.Status == specs.StatusParked {
		m.parkings++
	}
	got, err := m.state(to)
	if err == nil {
		err = m.sameHistory()
	}
	if got != to {
		err = errors.Join(fmt.Errorf("another state (-model +tables):\n%s", cmp.Diff(to, got)), err)
	}
	return err
}

// sameHistory compares what is left of claims that are over: each run's outcome with
// the mark of a late write, and the facts that were told.
func (m *matter) sameHistory() error {
	got := map[rail.UUID]string{}
	for i, run := range m.now.Runs {
		got[run] = m.now.Outcomes[i]
	}
	if d := cmp.Diff(m.outcomes, got); d != "" {
		return fmt.Errorf("the runs end otherwise (-want +tables):\n%s", d)
	}
	if m.now.Told != int64(len(m.now.Frames)) || m.now.Warnings != int64(m.parkings) {
		return fmt.Errorf("told of %d landings and %d parkings, there were %d and %d", m.now.Told, m.now.Warnings, len(m.now.Frames), m.parkings)
	}
	return nil
}

// leave makes the matter one that no later claim or sweep looks at.
func (m *matter) leave(ctx context.Context) error {
	for _, w := range m.workers {
		if w != nil && w.landing != nil {
			w.landing.crash()
		}
	}
	_, err := jobs.Actor{Name: "conformance", Reason: "the walk is over"}.Park(ctx, m.db.work.Conn, m.key)
	return err
}

// tidy does now and then what autovacuum does elsewhere: queue and claims are read by
// indexes that fill with dead entries.
func (db *database) tidy(t *testing.T) {
	if db.walked++; db.walked%50 != 0 {
		return
	}
	if _, err := db.work.Conn.Exec(t.Context(), `VACUUM ops.matter_frame_jobs`); err != nil {
		t.Error(err)
	}
}

const ageSQL = `UPDATE ops.matter_frame_jobs SET not_before = clock_timestamp() WHERE firm_id = $1 AND matter_id = $2 AND run_status = 'queued'`

const expireSQL = `UPDATE ops.matter_frame_jobs SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE firm_id = $1 AND matter_id = $2 AND run_status = 'running'`

// A failover to a replica that lacks the last claim: the row as it was, and no run.
const rewindSQL = `
WITH gone AS (DELETE FROM ops.matter_frame_runs WHERE run_id = $4)
UPDATE ops.matter_frame_jobs j
   SET run_status = i.run_status, requested_generation = i.requested_generation, claimed_generation = i.claimed_generation,
       landed_generation = i.landed_generation, rebuild_needed = i.rebuild_needed, claimed_at = i.claimed_at,
       lease_expires_at = i.lease_expires_at, run_id = i.run_id, attempts = i.attempts, demands_owed = i.demands_owed,
       owed_since = i.owed_since, rebuild_since = i.rebuild_since, rebuild_priority = i.rebuild_priority, queued_at = i.queued_at,
       not_before = i.not_before, priority = i.priority, last_error = i.last_error, parked_by = i.parked_by,
       parked_reason = i.parked_reason, authority_epoch = i.authority_epoch, landed_xid = i.landed_xid
  FROM jsonb_populate_record(NULL::ops.matter_frame_jobs, $3::text::jsonb) i
 WHERE j.firm_id = $1 AND j.matter_id = $2`
