package relay

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/nudge"
)

type metrics struct {
	published, unowned prometheus.Counter
	failures           *prometheus.CounterVec
	paused             *prometheus.GaugeVec
	age                prometheus.Histogram
	parked             *parkedGauge
}

func newMetrics(reg prometheus.Registerer, sinks []string, h *hand) *metrics {
	m := &metrics{
		published: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rail_outbox_published_total", Help: "Facts that this relay marked as published.",
		}),
		unowned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rail_outbox_unowned_marks_total", Help: "Facts that were sent and not marked, as their bucket had gone to another relay or they were marked already.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rail_outbox_publish_failures_total", Help: "Entries that a sink did not take, by code.",
		}, []string{"code"}),
		paused: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rail_sink_paused", Help: "1 while a sink is paused because it is not configured as it should be.",
		}, []string{"sink"}),
		age: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rail_outbox_commit_to_publish_seconds", Help: "From a fact's insert to its mark as published, by the database's clock.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600},
		}),
		parked: &parkedGauge{desc: prometheus.NewDesc("rail_outbox_parked_rows", "Facts that no sink will take until somebody acts; absent while it is not known.", nil, nil)},
	}
	for _, c := range nudge.Codes() {
		m.failures.WithLabelValues(c)
	}
	for _, s := range sinks {
		m.paused.WithLabelValues(s)
	}
	reg.MustRegister(m.published, m.unowned, m.failures, m.paused, m.age, m.parked,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rail_relay_buckets", Help: "Buckets of the outbox that this relay owns.",
		}, func() float64 { return float64(h.buckets()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rail_relay_in_hand", Help: "Facts that are read and not written down yet.",
		}, func() float64 { return float64(h.size()) }))
	return m
}

// failed counts an entry; a code that is not of the set counts as other.
func (m *metrics) failed(code string) { m.failures.WithLabelValues(nudge.SafeCode(code)).Inc() }

// parkedGauge is absent until it was counted and when it could not be.
type parkedGauge struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	n    int64
	ok   bool
}

func (g *parkedGauge) set(n int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n, g.ok = n, err == nil
}

// Describe implements prometheus.Collector.
func (g *parkedGauge) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect implements prometheus.Collector.
func (g *parkedGauge) Collect(ch chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ok {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(g.n))
	}
}
