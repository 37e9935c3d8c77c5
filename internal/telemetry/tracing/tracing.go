package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"briefrail/internal/rail"
)

// Options of a Tracing. Durations and counts must be positive.
type Options struct {
	URL         string                      // of the collector, path and all; "" for no tracing
	Headers     func() ([][2]string, error) // of the next request; nil for none
	Timeout     time.Duration               // of one batch, tries included
	Gzip        bool                        // compress requests
	Certificate string                      // file of PEM certificates; "" for the public ones
	Sampler     string                      // as OTEL_TRACES_SAMPLER has it
	Ratio       float64                     // of the traceidratio samplers
	Service     string                      // name of this program
	Version     string                      // of this program
	Instance    string                      // name of this process
	Resource    [][2]string                 // further attributes of the process
	Queue       int                         // spans that wait at most
	Batch       int                         // spans of one request at most
	Delay       time.Duration               // how long a span waits for others
	Log         *slog.Logger
}

// Tracing is spans on their way to a collector. The nil Tracing traces nothing.
type Tracing struct {
	queue    *queue
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// links and attributes of one span at most; a batch of facts has no more of them.
const (
	mostLinks = 512
	mostAttrs = 32
)

// Start registers the metrics and, where there is a URL, starts to trace; Stop must
// follow. It asks nothing of the collector, which may be away.
func Start(ctx context.Context, reg prometheus.Registerer, o Options) (*Tracing, error) {
	m := newMetrics(reg)
	if o.URL == "" {
		return nil, nil
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	t := &Tracing{queue: newQueue(exporter, m, o)}
	t.provider = sdk.NewTracerProvider(
		sdk.WithSpanProcessor(t.queue), sdk.WithIDGenerator(ids{}), sdk.WithSampler(newSampler(o.Sampler, o.Ratio)),
		sdk.WithResource(newResource(o)), sdk.WithRawSpanLimits(sdk.SpanLimits{
			AttributeValueLengthLimit: maxText, AttributeCountLimit: mostAttrs, LinkCountLimit: mostLinks,
		}))
	t.tracer = t.provider.Tracer("briefrail", trace.WithInstrumentationVersion(o.Version))
	t.queue.start(ctx)
	return t, nil
}

func newResource(o Options) *resource.Resource {
	attrs := []attribute.KeyValue{}
	for _, p := range o.Resource {
		attrs = append(attrs, attribute.String(clean(p[0]), clean(p[1])))
	}
	// of two with one name the later counts: what the process knows by itself
	return resource.NewSchemaless(append(attrs, attribute.String("service.name", clean(o.Service)),
		attribute.String("service.version", clean(o.Version)), attribute.String("service.instance.id", clean(o.Instance)))...)
}

// Tracer is what the rooms take: nil where nothing is traced.
func (t *Tracing) Tracer() rail.Tracer {
	if t == nil {
		return nil
	}
	return t.begin
}

// Stop delivers what is queued, until ctx ends. Spans that end afterwards are dropped.
func (t *Tracing) Stop(ctx context.Context) {
	if t != nil {
		t.queue.finish(ctx)
	}
}

// begin is the Tracer.
func (t *Tracing) begin(ctx context.Context, s rail.Span) (context.Context, rail.EndSpan) {
	opts := []trace.SpanStartOption{trace.WithSpanKind(kindOf(s.Kind)), trace.WithAttributes(attributesOf(s.Attrs)...), trace.WithLinks(linksOf(ctx, s.Links)...)}
	if !s.Since.IsZero() {
		opts = append(opts, trace.WithTimestamp(s.Since))
	}
	within := ctx
	switch parent := read(ctx, s.Parent); {
	case !s.Run.IsZero():
		within, opts = context.WithValue(ctx, runKey{}, s.Run), append(opts, trace.WithNewRoot())
	case parent.IsValid():
		within = trace.ContextWithRemoteSpanContext(ctx, parent)
	case s.Parent != (rail.TraceContext{}):
		// part of a trace that cannot be read: nobody could find it
		return ctx, func(string, ...rail.Attr) {}
	}
	_, span := t.tracer.Start(within, clean(s.Name), opts...)
	ctx = trace.ContextWithSpan(ctx, span)
	return rail.WithTrace(ctx, written(span.SpanContext())), endOf(span)
}
