package trigger

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	facts *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{facts: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rail_facts_decided_total",
		Help: "Facts that got their receipt, by verdict.",
	}, []string{"verdict"})}
	for _, v := range []string{"demanded", "ignored", "gated"} {
		m.facts.WithLabelValues(v)
	}
	reg.MustRegister(m.facts)
	return m
}

func (m *metrics) decided(all []judged) {
	for _, j := range all {
		switch j.verdict {
		case Demanded, Ignored:
			m.facts.WithLabelValues(string(j.verdict)).Inc()
		default:
			m.facts.WithLabelValues("gated").Inc()
		}
	}
}
