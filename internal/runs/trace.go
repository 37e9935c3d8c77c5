package runs

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"briefrail/internal/jobs"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Origin tells of the facts that a claim's build serves: their trace contexts, and
// the epoch of the ledger.
type Origin func(ctx context.Context, c jobs.Claim) (causes []rail.TraceContext, epoch int64, err error)

// originTime bounds the one question that a traced run asks before it builds.
const originTime = time.Second

// traced begins the run's span and returns what ends it. A run has a trace of its
// own, as it begins minutes after what caused it and for many at once: it links the
// facts it serves, and each fact's trace gets a span that links the run. Untraced,
// the context still says by which ids the run goes.
func (a *attempt) traced(ctx context.Context) (context.Context, func()) {
	token := a.c.Token
	if a.r.opts.Tracer == nil {
		return rail.WithTrace(ctx, rail.TraceContext{Parent: token.TraceParent()}), func() {}
	}
	causes, epoch := a.origin(ctx)
	ctx, end := a.r.opts.Tracer.Begin(ctx, rail.Span{Name: "run", Run: token.Run, Links: causes, Attrs: []rail.Attr{
		rail.Text("rail.firm_id", a.c.Key.Firm.String()), rail.Text("rail.matter_id", a.c.Key.Matter.String()),
		rail.Text("rail.run_id", token.Run.String()), rail.Number("rail.token", token.Generation), rail.Number("rail.epoch", epoch),
		rail.Number("rail.attempt", a.c.Attempt), rail.Number("rail.demands", a.c.Demands),
	}})
	ends := []rail.EndSpan{end}
	for _, cause := range causes {
		_, end := a.r.opts.Tracer.Begin(ctx, rail.Span{Name: "rebuild", Parent: cause, Links: []rail.TraceContext{rail.TraceOf(ctx)}})
		ends = append(ends, end)
	}
	return ctx, func() {
		for _, end := range ends {
			end(pg.Text(a.err, 300), rail.Text("rail.outcome", a.outcome), rail.Text("error.type", a.kind))
		}
	}
}

// origin asks whose demand this is. Without an answer the run is traced all the same.
func (a *attempt) origin(ctx context.Context) (causes []rail.TraceContext, epoch int64) {
	if a.r.opts.Origin == nil {
		return nil, 0
	}
	ctx, cancel := context.WithTimeout(ctx, originTime)
	defer cancel()
	causes, epoch, err := a.r.opts.Origin(ctx, a.c.Claim)
	if err != nil {
		a.r.opts.Log.DebugContext(ctx, "a run is traced without what caused it", slog.String("err", pg.Text(err, 200)))
	}
	return causes, epoch
}

// buildTraced is the builder's call as a span of the run; its context is what the
// builder goes on from.
func (a *attempt) buildTraced(ctx context.Context, b Builder, r Request) (Frame, Usage, error) {
	ctx, end := a.r.opts.Tracer.Begin(ctx, rail.Span{Name: "build", Kind: rail.Calls, Attrs: []rail.Attr{rail.Text("rail.builder", a.r.opts.BuilderName)}})
	t := rail.TraceOf(ctx)
	r.TraceParent, r.TraceState = t.Parent, t.State
	f, u, err := safely(b).Build(ctx, r)
	end(pg.Text(err, 300), rail.Number("rail.frame_bytes", len(f.JSON)), rail.Number("rail.model_calls", u.ModelCalls), rail.Number("rail.tokens", u.Tokens))
	return f, u, err
}

// factTrace is the trace context of the facts that a run appends: the run's first
// span, with the sampled flag of the trace that ctx is in.
func factTrace(ctx context.Context, t rail.Token) string {
	own := t.TraceParent()
	if now := rail.TraceOf(ctx).Parent; len(now) == len(own) && strings.HasPrefix(now, own[:len("00-")+32]) {
		return own[:len(own)-2] + now[len(now)-2:]
	}
	return own
}
