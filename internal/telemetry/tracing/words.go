package tracing

import (
	"context"
	"log/slog"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"briefrail/internal/rail"
)

// maxText bounds every text of a span, in bytes.
const maxText = 500

// clean makes s valid UTF-8 without control characters, of at most maxText bytes.
func clean(s string) string {
	if len(s) > maxText {
		n := maxText
		for n > maxText-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

func kindOf(k rail.SpanKind) trace.SpanKind {
	switch k {
	case rail.Sends:
		return trace.SpanKindProducer
	case rail.Handles:
		return trace.SpanKindConsumer
	case rail.Calls:
		return trace.SpanKindClient
	case rail.Inside:
	}
	return trace.SpanKindInternal
}

// attributesOf takes over numbers, texts and switches; what else there is becomes
// text, and empty text says nothing.
func attributesOf(attrs []rail.Attr) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(attrs))
	for _, a := range attrs {
		v := a.Value.Resolve()
		switch v.Kind() {
		case slog.KindInt64:
			out = append(out, attribute.Int64(clean(a.Key), v.Int64()))
		case slog.KindBool:
			out = append(out, attribute.Bool(clean(a.Key), v.Bool()))
		default:
			if text := clean(v.String()); text != "" {
				out = append(out, attribute.String(clean(a.Key), text))
			}
		}
	}
	return out
}

// read reads a trace context that travelled; the invalid one where it is none.
func read(ctx context.Context, t rail.TraceContext) trace.SpanContext {
	if t.Parent == "" {
		return trace.SpanContext{}
	}
	blank := trace.ContextWithSpanContext(ctx, trace.SpanContext{}) // or what cannot be read would be ctx's own
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(blank,
		propagation.MapCarrier{"traceparent": t.Parent, "tracestate": t.State}))
}

// written is a trace context fit for travel.
func written(c trace.SpanContext) rail.TraceContext {
	return rail.TraceContext{
		Parent: "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + (c.TraceFlags() & trace.FlagsSampled).String(),
		State:  c.TraceState().String(),
	}
}

// linksOf are the causes that can be read, each once.
func linksOf(ctx context.Context, causes []rail.TraceContext) []trace.Link {
	var out []trace.Link
	type id struct {
		trace trace.TraceID
		span  trace.SpanID
	}
	seen := map[id]bool{}
	for _, t := range causes {
		c := read(ctx, t)
		if named := (id{c.TraceID(), c.SpanID()}); c.IsValid() && !seen[named] && len(out) < mostLinks {
			seen[named] = true
			out = append(out, trace.Link{SpanContext: c})
		}
	}
	return out
}

func endOf(span trace.Span) rail.EndSpan {
	return func(failure string, attrs ...rail.Attr) {
		span.SetAttributes(attributesOf(attrs)...)
		if failure != "" {
			span.SetStatus(codes.Error, clean(failure))
		}
		span.End()
	}
}
