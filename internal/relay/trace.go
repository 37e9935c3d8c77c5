package relay

import (
	"context"

	"briefrail/internal/nudge"
	"briefrail/internal/rail"
)

// traced begins the span of one call, which links the trace of each fact that it
// carries: a call is of many, so it is part of none.
func (r *Relay) traced(ctx context.Context, s *sink, nudges []nudge.Nudge) (context.Context, func([]nudge.Result, error)) {
	if r.opts.Tracer == nil {
		return ctx, func([]nudge.Result, error) {}
	}
	causes := make([]rail.TraceContext, len(nudges))
	for i, n := range nudges {
		causes[i] = rail.TraceContext{Parent: n.TraceParent, State: n.TraceState}
	}
	ctx, end := r.opts.Tracer.Begin(ctx, rail.Span{Name: "send " + s.Place, Kind: rail.Sends, Links: causes, Attrs: append(s.words(),
		rail.Text("messaging.operation.type", "send"), rail.Text("messaging.destination.name", s.Place), rail.Number("messaging.batch.message_count", len(nudges)))})
	return ctx, func(results []nudge.Result, err error) {
		sent := 0
		for _, res := range results {
			if res.Verdict == nudge.Sent {
				sent++
			}
		}
		failure := ""
		if err != nil {
			failure = short(err.Error())
		}
		end(failure, rail.Number("rail.sent", sent))
	}
}

// words say what kind of a place it is. EventBridge has no conventions of its own: it
// goes by those of calls of the AWS SDK.
func (s *sink) words() []rail.Attr {
	if s.Name == "eventbridge" {
		return []rail.Attr{rail.Text("rpc.system", "aws-api"), rail.Text("rpc.service", "EventBridge"), rail.Text("rpc.method", "PutEvents")}
	}
	return []rail.Attr{rail.Text("messaging.system", "aws_sqs")}
}
