package audit

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// descs are the gauges of a Collector.
type descs struct {
	jobs, oldestOwed, oldestRunning, oldestLease, undecided, oldestUndecided, unheard *prometheus.Desc
	pending, oldestPending, canary, epoch, changed, schema                            *prometheus.Desc
	skew, paused, invariant                                                           *prometheus.Desc
}

func newDescs() descs {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("rail_"+name, help, labels, nil)
	}
	return descs{
		jobs:            d("jobs", "Matters by state, the canary's left out; idle is an estimate in a large ledger.", "state"),
		oldestOwed:      d("jobs_oldest_owed_timestamp_seconds", "Oldest demand that no landed frame holds, parked matters included; 0 when nothing is owed."),
		oldestRunning:   d("jobs_oldest_running_timestamp_seconds", "When the oldest running claim was taken; 0 when none runs."),
		oldestLease:     d("jobs_oldest_lease_timestamp_seconds", "When the running claim that ends first must have been renewed; 0 when none runs."),
		undecided:       d("outbox_undecided_rows", "Facts that wait for the trigger's verdict."),
		oldestUndecided: d("outbox_oldest_undecided_timestamp_seconds", "When the oldest undecided fact was recorded; 0 when there is none."),
		unheard:         d("outbox_unheard_rows", "Facts that were published and are undecided a minute after they were recorded: nobody heard of them."),
		pending:         d("outbox_pending_rows", "Facts not yet published; absent where publishing is not required."),
		oldestPending:   d("outbox_oldest_pending_timestamp_seconds", "When the oldest fact not yet published was recorded, parked ones left out; 0 when there is none, absent where publishing is not required."),
		canary:          d("canary_last_success_timestamp_seconds", "When the canary's last frame landed; 0 when it never did."),
		epoch:           d("ledger_epoch", "Rewinds of the ledger that were declared: a restore, a lossy failover."),
		changed:         d("ledger_changed", "1 when the server's system identifier or timeline is not the one that the ledger knows, or its log ends before where this process saw it end in the same epoch."),
		schema:          d("schema_version", "Version of schema ops."),
		skew:            d("clock_skew_seconds", "How far this process's clock is ahead of the database's."),
		paused:          d("dispatch_paused", "Pauses of dispatch that are in force."),
		invariant:       d("invariant_violations", "Rows that break an invariant, up to 10000; 0 is healthy.", "invariant"),
	}
}

// figures are the gauges that one look at the ledger gives.
func (d descs) figures() []*prometheus.Desc {
	return []*prometheus.Desc{
		d.jobs, d.oldestOwed, d.oldestRunning, d.oldestLease, d.undecided, d.oldestUndecided, d.unheard, d.pending,
		d.oldestPending, d.canary, d.epoch, d.changed, d.schema, d.skew, d.paused,
	}
}

func (d descs) all() []*prometheus.Desc { return append(d.figures(), d.invariant) }

func (d descs) emit(ch chan<- prometheus.Metric, r reading) {
	set := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	f := r.figures
	for state, n := range map[string]int64{"idle": f.Idle, "queued": f.Queued, "running": f.Running, "parked": f.Parked, "elsewhere": f.Elsewhere} {
		set(d.jobs, float64(n), state)
	}
	set(d.oldestOwed, unix(f.OldestOwed))
	set(d.oldestRunning, unix(f.OldestRunning))
	set(d.oldestLease, unix(f.OldestLease))
	set(d.unheard, float64(f.Unheard))
	set(d.undecided, float64(f.Undecided))
	set(d.oldestUndecided, unix(f.OldestUndecided))
	if f.Pending != nil {
		set(d.pending, float64(*f.Pending))
		set(d.oldestPending, unix(f.OldestPending))
	}
	set(d.canary, unix(f.CanaryLanded))
	set(d.epoch, float64(r.ledger.Epoch))
	set(d.changed, bit(r.ledger.Changed() || r.back))
	set(d.schema, float64(r.schema))
	set(d.skew, r.skew.Seconds())
	set(d.paused, float64(f.Paused))
}

// unix is an instant in seconds, 0 for none.
func unix(t *time.Time) float64 {
	if t == nil {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
