package nudge

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The calls, as label values and in errors.
const (
	apiPut     = "put_events"
	apiSend    = "send_message_batch"
	apiReceive = "receive_message"
	apiDelete  = "delete_message_batch"
	apiRelease = "change_message_visibility_batch"
	apiDepth   = "get_queue_attributes"
	apiLook    = "preflight"
	apiRedrive = "message_move_task"
)

// The outcomes of a call.
const (
	outcomeOK         = "ok"
	outcomePartial    = "partial" // an answer that does not name every entry as taken
	outcomeThrottled  = "throttled"
	outcomeExpired    = "expired_credentials" // none, old or unknown ones
	outcomeDenied     = "denied"              // all else that ClassOf calls Paused
	outcomeTimeout    = "timeout"
	outcomeConnection = "connection"
	outcomeError      = "error"
)

type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics registers the counters, or takes those that another client of the same
// program has registered: calls are counted by api, not by client.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rail_aws_requests_total", Help: "Calls of AWS, by call and outcome.",
		}, []string{"api", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rail_aws_request_duration_seconds", Help: "Time that a call of AWS took; a long poll counts its wait.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30},
		}, []string{"api"}),
	}
	if reg != nil {
		m.requests = register(reg, m.requests)
		m.duration = register(reg, m.duration)
	}
	for _, api := range []string{apiPut, apiSend, apiReceive, apiDelete, apiRelease, apiDepth, apiLook, apiRedrive} {
		m.duration.WithLabelValues(api)
		for _, outcome := range []string{outcomeOK, outcomePartial, outcomeThrottled, outcomeExpired, outcomeDenied, outcomeTimeout, outcomeConnection, outcomeError} {
			m.requests.WithLabelValues(api, outcome)
		}
	}
	return m
}

// register registers c, or returns the one that is there already. Any other refusal is
// a fault of the program, which MustRegister says.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	err := reg.Register(c)
	var there prometheus.AlreadyRegisteredError
	if errors.As(err, &there) {
		if old, ok := there.ExistingCollector.(C); ok {
			return old
		}
	}
	if err != nil {
		reg.MustRegister(c)
	}
	return c
}

func (m *metrics) observe(api, outcome string, took time.Duration) {
	m.requests.WithLabelValues(api, outcome).Inc()
	m.duration.WithLabelValues(api).Observe(took.Seconds())
}

// outcomeOf names how a call ended.
func outcomeOf(whole bool, err error) string {
	if err == nil {
		if whole {
			return outcomeOK
		}
		return outcomePartial
	}
	switch verdict, code := ClassOf(err); {
	case expired(code):
		return outcomeExpired
	case verdict == Paused:
		return outcomeDenied
	case throttled(code):
		return outcomeThrottled
	case code == codeTimeout:
		return outcomeTimeout
	case code == codeConnection:
		return outcomeConnection
	default:
		return outcomeError
	}
}

// throttled reports whether a code says that too much was asked.
func throttled(code string) bool {
	switch code {
	case "Throttling", "ThrottledException", "ThrottlingException", "RequestThrottled", "RequestThrottledException",
		"RequestLimitExceeded", "TooManyRequestsException", "SlowDown", "KmsThrottled", "OverLimit":
		return true
	}
	return false
}

// expired reports whether a code speaks of the credentials themselves, and not of
// what they allow: somebody has to renew them, not to grant anything.
func expired(code string) bool {
	switch code {
	case codeCredentials, "ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId",
		"UnrecognizedClientException", "InvalidAccessKeyId", "InvalidToken":
		return true
	}
	return false
}
