package rail

import (
	"context"
	"log/slog"
	"time"
)

// TraceContext is a W3C trace context as it travels: in the row of a fact, in its
// nudge, in the builder's call. Both texts are a sender's own until somebody reads
// them; either may be empty.
type TraceContext struct{ Parent, State string }

// SpanKind says which way a piece of work reaches out.
type SpanKind int

// The kinds of a Span.
const (
	Inside  SpanKind = iota // stays in this process
	Sends                   // hands messages over
	Handles                 // deals with messages that came
	Calls                   // waits for somebody's answer
)

// Attr is one attribute of a span, named as OpenTelemetry's conventions have it.
type Attr struct {
	Key   string
	Value slog.Value
}

// Text is an attribute that is text.
func Text(key, value string) Attr { return Attr{key, slog.StringValue(value)} }

// Number is an attribute that is a count or a number of a row.
func Number[N int | int64](key string, n N) Attr { return Attr{key, slog.Int64Value(int64(n))} }

// Span describes a piece of work to a Tracer: ids and words of closed sets, never
// content.
type Span struct {
	Name   string
	Kind   SpanKind
	Run    UUID           // the run whose own trace this begins; nil UUID for another
	Parent TraceContext   // what it is a part of, where that is not what ctx says
	Links  []TraceContext // what caused it, each a trace of its own; what cannot be read is left out
	Since  time.Time      // when it began; zero for now
	Attrs  []Attr
}

// EndSpan ends a span. Failure is text fit for a log line, "" where all is well.
type EndSpan func(failure string, attrs ...Attr)

// Tracer begins spans; the nil Tracer traces nothing. The context that it returns
// carries the span, for spans inside of it, for log lines and for TraceOf. No work
// waits for what becomes of a span.
type Tracer func(ctx context.Context, s Span) (context.Context, EndSpan)

// Begin begins a span, whose end the caller must call.
func (t Tracer) Begin(ctx context.Context, s Span) (context.Context, EndSpan) {
	if t == nil {
		return ctx, func(string, ...Attr) {}
	}
	return t(ctx, s)
}

type traceKey struct{}

// WithTrace returns a context that carries a trace context.
func WithTrace(ctx context.Context, t TraceContext) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace context that ctx carries, or the zero one.
func TraceOf(ctx context.Context) TraceContext {
	t, _ := ctx.Value(traceKey{}).(TraceContext)
	return t
}
