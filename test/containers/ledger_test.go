package containers

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// key is one matter of one firm.
type key struct{ firm, matter string }

func newKey() key { return key{newUUID(), newUUID()} }

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// tell commits a fact of each matter.
func (s *stack) tell(keys ...key) {
	s.t.Helper()
	for _, k := range keys {
		if _, err := s.pool.Exec(s.t.Context(), `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name) VALUES ($1, $2, 'document.uploaded')`, k.firm, k.matter); err != nil {
			s.t.Fatal(err)
		}
	}
}

// one asks for one row of one value.
func one[T any](s *stack, sql string, args ...any) T {
	s.t.Helper()
	v, err := ask[T](s, sql, args...)
	if err != nil {
		s.t.Fatalf("%v: %s", err, sql)
	}
	return v
}

func ask[T any](s *stack, sql string, args ...any) (v T, err error) {
	err = s.pool.QueryRow(s.t.Context(), sql, args...).Scan(&v)
	return v, err
}

// run is one attempt as its row says.
type run struct {
	ID, Worker, Outcome, Kind string
	Attempt                   int
	Started                   time.Time
	Finished, Late            *time.Time
}

// runs are the attempts of a matter, the oldest first.
func (s *stack) runs(k key) []run {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `SELECT run_id::text, worker, outcome, coalesce(error_kind, ''), attempt, started_at, finished_at, late_write_at
		FROM ops.matter_frame_runs WHERE firm_id = $1 AND matter_id = $2 ORDER BY generation`, k.firm, k.matter)
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[run])
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// building waits until a worker builds the matter, and returns the run.
func (s *stack) building(k key) run {
	s.t.Helper()
	var last run
	eventually(s.t, patience, "it is being built", func() bool {
		all := s.runs(k)
		if len(all) == 0 {
			return false
		}
		last = all[len(all)-1]
		return last.Outcome == "running"
	})
	return last
}

// service is the worker's name in the stack: its host name stands before the process.
func (r run) service() string { return r.Worker[:len("worker-a")] }

// other is the worker that r is not of.
func (r run) other() string {
	if r.service() == "worker-a" {
		return "worker-b"
	}
	return "worker-a"
}

// current waits until a landed frame holds everything that was demanded.
func (s *stack) current(within time.Duration, keys ...key) {
	s.t.Helper()
	for _, k := range keys {
		eventually(s.t, within, "matter "+k.matter+" is current", func() bool {
			ok, err := ask[bool](s, `SELECT run_status = 'idle' AND landed_generation = requested_generation AND landed_generation > 0
				FROM ops.matter_frame_jobs WHERE firm_id = $1 AND matter_id = $2`, k.firm, k.matter)
			return err == nil && ok
		})
	}
}

// sound asserts that nothing was lost: every fact has its receipt, everything is current
// and published, and there are as many frames as landed runs.
func (s *stack) sound() {
	s.t.Helper()
	for what, sql := range map[string]string{
		"facts without a receipt":      `SELECT count(*) FROM ops.domain_event_outbox o LEFT JOIN ops.trigger_receipts r USING (event_id) WHERE r.event_id IS NULL`,
		"facts that are not published": `SELECT count(*) FROM ops.domain_event_outbox WHERE published_at IS NULL`,
		"matters that are not current": `SELECT count(*) FROM ops.matter_frame_jobs WHERE landed_generation < requested_generation`,
		// frames and runs that retention took are counted where it took them
		"landed runs more or less than frames": `SELECT abs(
			(SELECT count(*) FROM ops.matter_frame_runs WHERE outcome = 'landed') + (SELECT taken FROM ops.retention_counters WHERE what = 'landed_runs')
			- (SELECT count(*) FROM ops.matter_frames) - (SELECT taken FROM ops.retention_counters WHERE what = 'frames'))`,
	} {
		var n int
		if !reached(s.t, patience, func() bool {
			var err error
			n, err = ask[int](s, sql)
			return err == nil && n == 0
		}) {
			s.t.Errorf("%d %s", n, what)
		}
	}
}
