// Package tracing sends spans to an OpenTelemetry collector, where one is configured:
// OTLP over HTTP, protobuf. It is the only package that knows OpenTelemetry; rooms
// that are traced take a rail.Tracer.
//
// It owns the queue of ended spans, what of it is dropped, and the decision what is
// recorded. Without an endpoint there is no Tracing: no goroutine, no exporter, and
// the nil rail.Tracer in every room.
//
// No work waits for it and none fails by it: a span that finds the queue full is
// dropped and counted, a batch that the collector does not take within its time too,
// and a stop waits for what is queued no longer than it is told.
//
// A run has a trace of its own, whose ids follow from the run's. What caused it is
// linked: the run names the facts' traces, and each fact's trace has a span that
// names the run. Attributes are ids, counts and words of closed sets; texts are cut
// and made valid UTF-8. It does not promise that a span arrives.
package tracing
