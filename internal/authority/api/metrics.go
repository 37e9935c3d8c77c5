package api

import (
	"github.com/prometheus/client_golang/prometheus"
)

// The answers, each a word of its own for metrics and logs.
const (
	accepted         = "accepted"
	replayed         = "replayed" // accepted, and it had been before
	revisionConflict = "revision_conflict"
	refused          = "refused" // by an old writer, for a reason of its own
	outcomeUnknown   = "outcome_unknown"
	otherDigest      = "other_digest"
	epochChanged     = "epoch_changed"
	closing          = "closing"
	retired          = "retired"
	receipt          = "receipt"
	noReceipt        = "no_receipt"
	told             = "authority"
	notModified      = "not_modified"
	unauthenticated  = "unauthenticated"
	forbidden        = "forbidden"
	notFound         = "not_found"
	notAllowed       = "not_allowed"
	malformed        = "malformed"
	tooLarge         = "too_large"
	unsupported      = "unsupported"
	busy             = "busy"
	unavailable      = "unavailable"
	failed           = "failed"
)

func answers() []string {
	return []string{
		accepted, replayed, revisionConflict, refused, outcomeUnknown, otherDigest, epochChanged, closing, retired, receipt, noReceipt,
		told, notModified, unauthenticated, forbidden, notFound, notAllowed, malformed, tooLarge, unsupported, busy, unavailable, failed,
	}
}

type metrics struct {
	requests *prometheus.CounterVec
	took     prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rail_api_requests_total", Help: "Requests to the interface of intents, by what was answered.",
		}, []string{"answer"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rail_api_request_duration_seconds", Help: "Time that a request to the interface of intents took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
	}
	for _, a := range answers() {
		m.requests.WithLabelValues(a)
	}
	reg.MustRegister(m.requests, m.took)
	return m
}
