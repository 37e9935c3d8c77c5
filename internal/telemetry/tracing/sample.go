package tracing

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"briefrail/internal/rail"
)

// newSampler is what OTEL_TRACES_SAMPLER names.
func newSampler(name string, ratio float64) sdk.Sampler {
	word, parentBased := strings.CutPrefix(name, "parentbased_")
	var root sdk.Sampler
	switch word {
	case "always_off":
		root = sdk.NeverSample()
	case "traceidratio":
		root = part(ratio)
	default:
		root = sdk.AlwaysSample()
	}
	if !parentBased {
		return root
	}
	return sdk.ParentBased(linked{root})
}

// linked is for spans whose causes are linked instead of being their parents: what
// was said of them holds. One of them recorded is enough, and where all were left
// out the span is too; where nothing caused it, root decides.
type linked struct{ root sdk.Sampler }

// ShouldSample implements sdk.Sampler.
func (s linked) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	if len(p.Links) == 0 {
		return s.root.ShouldSample(p)
	}
	for _, l := range p.Links {
		if l.SpanContext.IsSampled() {
			return sdk.AlwaysSample().ShouldSample(p)
		}
	}
	return sdk.NeverSample().ShouldSample(p)
}

// Description implements sdk.Sampler.
func (s linked) Description() string { return "Linked{" + s.root.Description() + "}" }

// part records a part of all traces, by the last 56 bits of their ids: those of a
// run's id are random, while others say that it is a UUID.
type part float64

// ShouldSample implements sdk.Sampler.
func (r part) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	if float64(binary.BigEndian.Uint64(p.TraceID[8:])&(1<<56-1)) < float64(r)*math.Exp2(56) {
		return sdk.AlwaysSample().ShouldSample(p)
	}
	return sdk.NeverSample().ShouldSample(p)
}

// Description implements sdk.Sampler.
func (r part) Description() string { return "Part" }

// runKey is where a context says whose trace begins.
type runKey struct{}

// ids makes the ids of spans. Those of a run's first span follow from the run id, so
// that they are what its row and its facts say.
type ids struct{}

// NewIDs implements sdk.IDGenerator.
func (ids) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if run, ok := ctx.Value(runKey{}).(rail.UUID); ok {
		return trace.TraceID(run), trace.SpanID(run[:8])
	}
	binary.BigEndian.PutUint64(t[:8], rand.Uint64()|1) // never all zero
	binary.BigEndian.PutUint64(t[8:], rand.Uint64())
	return t, ids{}.NewSpanID(ctx, t)
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	binary.BigEndian.PutUint64(s[:], rand.Uint64()|1)
	return s
}
