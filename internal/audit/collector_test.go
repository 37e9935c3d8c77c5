package audit_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/audit"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
)

// scrape returns the series that a registry has now, and the error of those that
// it could not get.
func scrape(t *testing.T, c prometheus.Collector) (map[string]float64, error) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	series := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "{" + l.GetValue() + "}"
			}
			series[name] = m.GetGauge().GetValue()
		}
	}
	return series, err
}

func TestCollectorExportsTheLedger(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	c := audit.NewCollector(l.Pool, audit.Options{CacheFor: time.Nanosecond})
	empty, err := scrape(t, c)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"rail_canary_last_success_timestamp_seconds", "rail_clock_skew_seconds", "rail_dispatch_paused", "rail_jobs_oldest_lease_timestamp_seconds",
		"rail_jobs_oldest_owed_timestamp_seconds", "rail_jobs_oldest_running_timestamp_seconds",
		"rail_jobs{elsewhere}", "rail_jobs{idle}", "rail_jobs{parked}", "rail_jobs{queued}", "rail_jobs{running}",
		"rail_ledger_changed", "rail_ledger_epoch", "rail_outbox_oldest_undecided_timestamp_seconds", "rail_outbox_undecided_rows", "rail_outbox_unheard_rows", "rail_schema_version",
	}
	if got := slices.Sorted(maps.Keys(empty)); !slices.Equal(got, want) {
		t.Errorf("series of an empty ledger: %v", got)
	}
	if empty["rail_ledger_epoch"] != 1 || empty["rail_jobs_oldest_owed_timestamp_seconds"] != 0 {
		t.Errorf("%v", empty)
	}

	l.build(newKey())
	l.build(rail.Canary())
	l.demand(rail.Canary())
	l.exec(`UPDATE ops.matter_frame_jobs SET owed_since = owed_since - interval '1 day' WHERE firm_id = $1 AND owed_since IS NOT NULL`, rail.Canary().Firm)
	start := time.Now().Add(-time.Minute)
	l.demand(newKey())
	by := jobs.Actor{Name: "kim", Reason: "test"}
	if _, err := by.Pause(t.Context(), l.Pool, rail.UUID{}); err != nil {
		t.Fatal(err)
	}
	l.fact(newKey(), "document.uploaded")
	l.exec(`UPDATE ops.ledger SET publishing = 'required', timeline = timeline + 1`)
	got, err := scrape(t, c)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]float64{
		"rail_jobs{idle}": 1, "rail_jobs{queued}": 1, "rail_dispatch_paused": 1, "rail_ledger_changed": 1,
		"rail_outbox_undecided_rows": 1, "rail_outbox_pending_rows": 5,
	} {
		if got[name] != v {
			t.Errorf("%s is %v, want %v", name, got[name], v)
		}
	}
	for _, name := range []string{
		"rail_jobs_oldest_owed_timestamp_seconds", "rail_canary_last_success_timestamp_seconds",
		"rail_outbox_oldest_pending_timestamp_seconds", "rail_outbox_oldest_undecided_timestamp_seconds",
	} {
		if got[name] < float64(start.Unix()) {
			t.Errorf("%s is %v, before the test began", name, got[name])
		}
	}
}

// What an alarm asks of single rows: a parked fact is not what the relay is behind
// with, a published one that nobody decided is unheard, and a lapsed claim shows by its
// lease and not by its age.
func TestCollectorTellsWhatWaitsForWhom(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	parked, pending, unheard := l.fact(newKey(), "a.b"), l.fact(newKey(), "a.b"), l.fact(newKey(), "a.b")
	l.force(`UPDATE ops.domain_event_outbox SET recorded_at = recorded_at - interval '2 hours' WHERE event_id = $1`, parked)
	l.force(`INSERT INTO ops.outbox_failures (event_id, bucket, attempts, next_attempt_at, last_code, last_text, parked_at, parked_reason)
	  SELECT event_id, bucket, 1, now(), 'too_large', '', now(), 'too large' FROM ops.domain_event_outbox WHERE event_id = $1`, parked)
	l.force(`UPDATE ops.outbox_undecided SET recorded_at = recorded_at - interval '2 minutes' WHERE event_id = ANY ($1)`, []rail.UUID{pending, unheard})
	l.exec(`UPDATE ops.domain_event_outbox SET published_at = now() WHERE event_id = $1`, unheard)
	l.exec(`UPDATE ops.ledger SET publishing = 'required'`)
	k := newKey()
	l.demand(k)
	l.claim("w")
	l.expire(k, time.Hour)
	got, err := scrape(t, audit.NewCollector(l.Pool, audit.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if got["rail_outbox_unheard_rows"] != 1 || got["rail_outbox_pending_rows"] != 2 {
		t.Errorf("%v unheard, %v pending", got["rail_outbox_unheard_rows"], got["rail_outbox_pending_rows"])
	}
	for name, want := range map[string]time.Duration{
		"rail_outbox_oldest_pending_timestamp_seconds": 0, "rail_jobs_oldest_lease_timestamp_seconds": time.Hour,
	} {
		if age := time.Since(time.Unix(int64(got[name]), 0)); age < want-time.Minute || age > want+30*time.Minute {
			t.Errorf("%s is %s ago", name, age)
		}
	}
}

func TestCollectorAsksOnceAnInterval(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	c := audit.NewCollector(l.Pool, audit.Options{CacheFor: time.Hour})
	if _, err := scrape(t, c); err != nil {
		t.Fatal(err)
	}
	l.demand(newKey())
	got, err := scrape(t, c)
	if err != nil || got["rail_jobs{queued}"] != 0 {
		t.Errorf("%v, %v", got["rail_jobs{queued}"], err)
	}
}

func TestGaugesAreAbsentWhenTheLedgerCannotBeRead(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	c := audit.NewCollector(l.Pool, audit.Options{CacheFor: time.Nanosecond})
	c.Pass(t.Context())
	l.exec(`ALTER TABLE ops.dispatch_pauses RENAME TO away`)
	got, err := scrape(t, c)
	if err == nil {
		t.Error("no collector error")
	}
	for name := range got {
		if !strings.HasPrefix(name, "rail_invariant_violations") {
			t.Errorf("%s in spite of the error", name)
		}
	}
}

func TestInvariantsAreCheckedOnASchedule(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	run := l.build(newKey())
	c := audit.NewCollector(l.Pool, audit.Options{CacheFor: time.Nanosecond, WholeEvery: time.Nanosecond})
	violations := func() map[string]float64 {
		t.Helper()
		got, err := scrape(t, c)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for name, v := range got {
			if _, inv, ok := strings.Cut(name, "rail_invariant_violations{"); ok {
				out[strings.TrimSuffix(inv, "}")] = v
			}
		}
		return out
	}
	if v := violations(); len(v) != 0 {
		t.Errorf("before any check: %v", v)
	}
	c.Pass(t.Context())
	v := violations()
	for _, name := range audit.Invariants() {
		if n, ok := v[name]; !ok || n != 0 {
			t.Errorf("%s is %v, present %v", name, n, ok)
		}
	}
	l.force(`DELETE FROM ops.matter_frames WHERE run_id = $1`, run.Token.Run)
	_, _ = l.Pool.Exec(t.Context(), `UPDATE ops.matter_frame_runs SET outcome = 'failed' WHERE run_id = $1`, run.Token.Run)
	c.Pass(t.Context())
	v = violations()
	for _, name := range []string{"one_frame_per_landing", "counts_conserved", "outcome_changed"} {
		if v[name] != 1 {
			t.Errorf("%s is %v", name, v[name])
		}
	}
	// A query that fails takes its own gauge away and leaves the others.
	l.exec(`ALTER TABLE ops.trigger_receipts RENAME TO away`)
	c.Pass(t.Context())
	got, err := scrape(t, c)
	if err == nil || !strings.Contains(err.Error(), "undecided_facts") {
		t.Errorf("error %v", err)
	}
	if _, ok := got["rail_invariant_violations{undecided_facts}"]; ok {
		t.Error("a gauge in spite of the error")
	}
	if got["rail_invariant_violations{one_frame_per_landing}"] != 1 {
		t.Error("the others are gone too")
	}
}
