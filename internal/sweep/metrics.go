package sweep

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	reclaims, pruned *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		reclaims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rail_lease_reclaims_total", Help: "Claims taken from a silent holder, by what became of the job.",
		}, []string{"outcome"}),
		pruned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rail_retention_deleted_total", Help: "Rows that retention took.",
		}, []string{"what"}),
	}
	for _, v := range []string{"queued", "parked"} {
		m.reclaims.WithLabelValues(v)
	}
	for _, v := range []string{"facts", "receipts", "runs", "frames"} {
		m.pruned.WithLabelValues(v)
	}
	reg.MustRegister(m.reclaims, m.pruned)
	return m
}

func (m *metrics) reclaimed(e Expired) { m.reclaims.WithLabelValues(e.Status).Inc() }
