package trigger

import (
	"context"
	"time"

	"briefrail/internal/rail"
)

// traced tells of one batch that was decided, which links the trace of each of its
// facts: it is of many, so it is part of none.
func (t *Trigger) traced(ctx context.Context, name string, kind rail.SpanKind, since time.Time, all []judged) {
	if t.opts.Tracer == nil || len(all) == 0 {
		return
	}
	causes, demanded := make([]rail.TraceContext, len(all)), 0
	for i, j := range all {
		causes[i] = rail.TraceContext{Parent: j.fact.TraceParent}
		if j.verdict == Demanded {
			demanded++
		}
	}
	attrs := []rail.Attr{rail.Number("messaging.batch.message_count", len(all)), rail.Number("rail.demanded", demanded)}
	if kind == rail.Handles {
		attrs = append(attrs, rail.Text("messaging.system", "aws_sqs"), rail.Text("messaging.operation.type", "process"))
	}
	_, end := t.opts.Tracer.Begin(ctx, rail.Span{Name: name, Kind: kind, Links: causes, Since: since, Attrs: attrs})
	end("")
}
