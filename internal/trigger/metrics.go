package trigger

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	facts, nudges            *prometheus.CounterVec
	received, deleteFailures prometheus.Counter
	dedupe, swept            prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{facts: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rail_facts_decided_total",
		Help: "Facts that got their receipt, by verdict.",
	}, []string{"verdict"})}
	for _, v := range []string{"demanded", "ignored", "gated"} {
		m.facts.WithLabelValues(v)
	}
	m.nudges = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rail_nudges_total", Help: "Nudges received, by what became of them; they add up to rail_nudges_received_total.",
	}, []string{"outcome"})
	for _, o := range []outcome{
		outcomeDemanded, outcomeIgnored, outcomeGated, outcomeDuplicate, outcomeMalformed, outcomeUnknown, outcomeMismatch, outcomeError,
	} {
		m.nudges.WithLabelValues(string(o))
	}
	m.received = prometheus.NewCounter(prometheus.CounterOpts{Name: "rail_nudges_received_total", Help: "Messages received from the queue."})
	m.deleteFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "rail_nudge_delete_failures_total", Help: "Messages that could not be deleted; they return as duplicates.",
	})
	m.dedupe = prometheus.NewCounter(prometheus.CounterOpts{Name: "rail_dedupe_hits_total", Help: "Nudges whose fact was decided before."})
	m.swept = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "rail_facts_swept_total", Help: "Facts that were decided by the sweep of the outbox and not by a nudge.",
	})
	reg.MustRegister(m.facts, m.nudges, m.received, m.deleteFailures, m.dedupe, m.swept)
	return m
}

func (m *metrics) nudge(o outcome) {
	m.nudges.WithLabelValues(string(o)).Inc()
	if o == outcomeDuplicate {
		m.dedupe.Inc()
	}
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
