package sweep

import (
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/pg/pgtest"
)

const matters = 2*walkStep + walkStep/2

// surplus gives every matter of the ledger, in the order of the walk, one frame, and
// the last one two more than the current one.
func surplus(t *testing.T) *pgtest.DB {
	t.Helper()
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), `BEGIN;
SET LOCAL session_replication_role = replica; -- as if each had been landed
INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status, requested_generation, claimed_generation, landed_generation)
SELECT gen_random_uuid(), gen_random_uuid(), 'idle', 3, 3, 3 FROM generate_series(1, `+strconv.Itoa(matters)+`);
INSERT INTO ops.matter_frames (firm_id, matter_id, generation, frame, digest, schema_version, builder_version, run_id)
SELECT firm_id, matter_id, 3, '{}', sha256('x'), '1', '1', gen_random_uuid() FROM ops.matter_frame_jobs;
INSERT INTO ops.matter_frames (firm_id, matter_id, generation, frame, digest, schema_version, builder_version, run_id)
SELECT firm_id, matter_id, g, '{}', sha256('x'), '1', '1', gen_random_uuid()
  FROM (SELECT firm_id, matter_id FROM ops.matter_frame_jobs ORDER BY firm_id DESC, matter_id DESC LIMIT 1) j, generate_series(1, 2) g;
COMMIT`); err != nil {
		t.Fatal(err)
	}
	if n := framesOf(t, db); n != matters+2 {
		t.Fatalf("%d frames to begin with, want %d", n, matters+2)
	}
	return db
}

func framesOf(t *testing.T, db *pgtest.DB) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM ops.matter_frames`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// However many matters there are, a round does not end at the first of them.
func TestARoundOfRetentionComesToTheLastMatter(t *testing.T) {
	t.Parallel()
	db := surplus(t)
	s, w := New(db.Pool, prometheus.NewRegistry(), Options{Keep: Retention{Frames: 1}}), &walker{}
	if _, err := s.pruneFrames(t.Context(), w, time.Hour); err != nil {
		t.Fatal(err)
	}
	if n := framesOf(t, db); n != matters || *w != (walker{}) {
		t.Errorf("%d frames are left, want %d; the next round begins at %v", n, matters, w.after)
	}
}

// A round that has no time left goes on in the next one where it ended.
func TestARoundOfRetentionEndsAndGoesOn(t *testing.T) {
	t.Parallel()
	db := surplus(t)
	s, w := New(db.Pool, prometheus.NewRegistry(), Options{Keep: Retention{Frames: 1}}), &walker{}
	for round, want := range []int{matters + 2, matters + 2, matters} {
		if _, err := s.pruneFrames(t.Context(), w, 0); err != nil {
			t.Fatal(err)
		}
		if n, last := framesOf(t, db), round == 2; n != want || (*w == walker{}) != last {
			t.Errorf("after round %d: %d frames, want %d; the next begins at %v", round+1, n, want, w.after)
		}
	}
}

// Where there is nothing to take a round ends after a few steps, whatever time it has:
// an idle ledger of a million matters is not read through every minute.
func TestARoundThatFindsNothingIsShort(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status)
		SELECT gen_random_uuid(), gen_random_uuid(), 'idle' FROM generate_series(1, `+strconv.Itoa((walkIdle+1)*walkStep)+`)`); err != nil {
		t.Fatal(err)
	}
	s, w := New(db.Pool, prometheus.NewRegistry(), Options{Keep: Retention{Frames: 1}}), &walker{}
	if behind, err := s.pruneFrames(t.Context(), w, time.Hour); err != nil || behind {
		t.Fatal(behind, err)
	}
	var left int
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM ops.matter_frame_jobs WHERE (firm_id, matter_id) > ($1, $2)`, w.after.Firm, w.after.Matter).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != walkStep {
		t.Errorf("%d matters are left for the next round, want %d", left, walkStep)
	}
}

type turns struct{ n int }

func (l *turns) Progress(string)       { l.n++ }
func (l *turns) Failed(string, string) {}

// A backlog that a round's time does not suffice for is not paused over, and the loop
// is seen to live meanwhile.
func TestRetentionDoesNotPauseBehindABacklog(t *testing.T) {
	t.Parallel()
	db, loop := pgtest.New(t), &turns{}
	const facts = 2*pruneBatch + pruneBatch/2
	if _, err := db.Pool.Exec(t.Context(), `
INSERT INTO ops.domain_event_outbox (firm_id, event_name) SELECT gen_random_uuid(), 'firm.created' FROM generate_series(1, `+strconv.Itoa(facts)+`);
INSERT INTO ops.trigger_receipts (event_id, verdict) SELECT event_id, 'ignored' FROM ops.domain_event_outbox;
DELETE FROM ops.outbox_undecided`); err != nil {
		t.Fatal(err)
	}
	keep := Retention{Receipts: time.Hour, Runs: time.Hour, Frames: 1, Every: time.Nanosecond}
	s := New(db.Pool, prometheus.NewRegistry(), Options{Keep: keep, Loops: loop})
	if err := s.prune(t.Context(), &walker{}); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM ops.domain_event_outbox`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 0 || loop.n != 2 {
		t.Errorf("%d facts are left, want none; %d rounds were told, want 2 that were cut off", left, loop.n)
	}
}
