package containers

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// Everything is restarted in turn while facts come in: two builders, so that one answers,
// both workers, the relay, the bus with all that is in its queue, PostgreSQL. No demand is
// lost, and no matter pays an attempt for it.
func TestRollingRestart(t *testing.T) {
	full(t)
	settings := quick()
	settings["BRIEF_DELAY"], settings["RAIL_LEASE_DURATION"] = "1s", "40s"
	s := start(t, settings, "--scale", "builder=2")
	ctx, stop := context.WithCancel(t.Context())
	told, ended := produce(ctx, s)
	for _, service := range []string{"worker-a", "builder", "relay", "worker-b", "aws", "postgres"} {
		for _, container := range s.containers(service) {
			docker(t, "stop", "--time", "40", container)
			docker(t, "start", container)
			s.settled() // the next is not taken before this one is back
			before := told.Load()
			eventually(t, time.Minute, "facts come in again", func() bool { return told.Load() >= before+20 })
			t.Logf("%s restarted, %d facts told", service, told.Load())
		}
	}
	stop()
	<-ended
	s.sound()
	if n := one[int64](s, `SELECT count(*) FROM ops.domain_event_outbox WHERE attributes ->> 'of' = 'load'`); n < told.Load() {
		t.Errorf("%d of %d committed facts are there", n, told.Load())
	}
	if n := one[int](s, `SELECT count(*) FROM ops.matter_frame_jobs WHERE attempts <> 0`); n != 0 {
		t.Errorf("%d matters with attempts charged", n)
	}
	rows, err := s.pool.Query(t.Context(), `SELECT outcome || ' ' || coalesce(error_kind, '') || ': ' || count(*) FROM ops.matter_frame_runs GROUP BY outcome, error_kind ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		t.Log(line)
	}
	if n := one[int](s, `SELECT count(*) FROM ops.matter_frame_runs WHERE outcome IN ('failed', 'expired')`); n != 0 {
		t.Errorf("%d attempts charged", n)
	}
}

// produce commits a fact every 100 ms, of one matter of 20 after the other, until ctx ends.
// A fact whose commit was not answered is not counted: it may be there or not.
func produce(ctx context.Context, s *stack) (*atomic.Int64, chan struct{}) {
	told, ended := new(atomic.Int64), make(chan struct{})
	keys := make([]key, 20)
	for i := range keys {
		keys[i] = newKey()
	}
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			k := keys[i%len(keys)]
			try, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			if _, err := s.pool.Exec(try, `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name, attributes) VALUES ($1, $2, 'document.uploaded', '{"of":"load"}')`, k.firm, k.matter); err == nil {
				told.Add(1)
			}
			cancel()
		}
	}()
	return told, ended
}
