package containers

import (
	"context"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Everything is restarted in turn while facts come in: two builders, so that one answers,
// both workers, the relay, the bus with all that is in its queue, PostgreSQL. No demand is
// lost, and no matter pays an attempt for it.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	inTime(t)
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
			eventually(t, patience, "facts come in again", func() bool { return told.Load() >= before+20 })
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
	s.uncharged()
}

// uncharged asserts that no run cost an attempt; of one that did, it shows what was said.
func (s *stack) uncharged() {
	s.t.Helper()
	for _, id := range strings.Fields(one[string](s, `SELECT coalesce(string_agg(run_id::text, ' '), '') FROM ops.matter_frame_runs WHERE outcome IN ('failed', 'expired')`)) {
		s.t.Errorf("an attempt is charged: %s", one[string](s, `SELECT to_jsonb(r)::text FROM ops.matter_frame_runs r WHERE run_id = $1`, id))
		for _, service := range []string{"worker-a", "worker-b", "builder"} {
			for _, container := range s.containers(service) {
				s.t.Logf("%s:\n%s", service, about(s.t, container, id))
			}
		}
	}
}

// about are the lines of a container's log that name something, and its complaints.
func about(t *testing.T, container, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "docker", "logs", container).CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, name) || strings.Contains(line, `"level":"ERROR"`) {
			found = append(found, line)
		}
	}
	return tail(strings.Join(found, ""), 6000)
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
