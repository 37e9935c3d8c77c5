package runs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	claims, runs, errors, renewals, rejections, staleHolder *prometheus.CounterVec
	duration, demandToFrame, canary                         prometheus.Histogram
	slots                                                   prometheus.Gauge
}

// errorKinds is the closed set of error kinds of a run; others count as "other".
func errorKinds() []string {
	return append(BuildKinds(), "interrupted", "lease_lost", "fenced", "other")
}

func counterVec(name, help, label string, values ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		v.WithLabelValues(value)
	}
	return v
}

func newMetrics(reg prometheus.Registerer, r *Runner) *metrics {
	minutes := []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
	m := &metrics{
		claims: counterVec("rail_claims_total", "Claims, by outcome.", "outcome", "won", "refused_running", "lost_race", "error"),
		runs: counterVec("rail_runs_total", "Runs that ended, by outcome.", "outcome",
			"landed", "failed", "expired", "fenced", "released", "cancelled"),
		errors:      counterVec("rail_run_errors_total", "Runs that ended without a frame, by kind of error.", "error_kind", errorKinds()...),
		renewals:    counterVec("rail_lease_renewals_total", "Lease renewals, by outcome.", "outcome", "renewed", "fenced", "locked", "error"),
		rejections:  counterVec("rail_fence_rejections_total", "Writes that the fence refused: normal when rare.", "write", "land", "renew", "fail", "release"),
		staleHolder: counterVec("rail_stale_holder_detected_total", "Overlapping builds, by who noticed.", "by", "holder", "storage"),
		duration:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rail_run_duration_seconds", Help: "From claim to the end of a run.", Buckets: minutes}),
		demandToFrame: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rail_demand_to_frame_seconds", Help: "Age of the oldest demand that a landed frame serves: the product's promise.", Buckets: minutes,
		}),
		canary: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rail_canary_round_trip_seconds", Help: "From the canary's demand to its landed frame.", Buckets: minutes,
		}),
		slots: prometheus.NewGauge(prometheus.GaugeOpts{Name: "rail_worker_slots", Help: "Builds that this worker may run at once."}),
	}
	m.slots.Set(float64(r.opts.Slots))
	reg.MustRegister(m.claims, m.runs, m.errors, m.renewals, m.rejections, m.staleHolder, m.duration, m.demandToFrame, m.canary, m.slots)
	registerGauges(reg, r)
	return m
}

// registerGauges exports hung work, which a histogram of ended runs never shows.
func registerGauges(reg prometheus.Registerer, r *Runner) {
	gauge := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	gauge("rail_worker_slots_in_use", "Builds that this worker runs now.", func() float64 { n, _, _ := r.live.ages(); return float64(n) })
	gauge("rail_run_unfinished_seconds", "Sum of the ages of the builds that run now.", func() float64 { _, sum, _ := r.live.ages(); return sum.Seconds() })
	gauge("rail_run_longest_running_seconds", "Age of the oldest build that runs now.", func() float64 { _, _, max := r.live.ages(); return max.Seconds() })
	gauge("rail_builder_paused", "1 while the builder is paused for an outage or its configuration.", func() float64 {
		if r.health.isPaused() {
			return 1
		}
		return 0
	})
}

func (m *metrics) landed(a *attempt, out Landed) {
	if out.Ambiguous {
		return // the age went with the lost answer
	}
	if a.canary() {
		m.canary.Observe(out.Owed.Seconds())
		return
	}
	m.demandToFrame.Observe(out.Owed.Seconds())
}

// ended counts a run of a user's; the canary has figures of its own.
func (m *metrics) ended(a *attempt) {
	if a.outcome == "" {
		a.outcome = "failed"
	}
	if a.canary() {
		return
	}
	m.runs.WithLabelValues(a.outcome).Inc()
	m.duration.Observe(time.Since(a.started).Seconds())
	if a.err == nil {
		return
	}
	for _, k := range errorKinds() {
		if k == a.kind {
			m.errors.WithLabelValues(k).Inc()
			return
		}
	}
	m.errors.WithLabelValues("other").Inc()
}
