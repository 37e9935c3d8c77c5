package tracing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// metrics counts spans by what became of them.
type metrics struct{ spans *prometheus.CounterVec }

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rail_trace_spans_total", Help: "Ended spans, by what became of them: delivered to the collector, refused by it or not delivered in time, or dropped as too many waited.",
	}, []string{"outcome"})}
	for _, o := range []string{"delivered", "failed", "dropped"} {
		m.spans.WithLabelValues(o)
	}
	reg.MustRegister(m.spans)
	return m
}

func (m metrics) add(outcome string, n int) { m.spans.WithLabelValues(outcome).Add(float64(n)) }

// queue is a sdk.SpanProcessor that never waits: spans lie in a channel, one
// goroutine delivers them in batches, and what finds no place is dropped.
type queue struct {
	exporter sdk.SpanExporter
	m        metrics
	o        Options
	spans    chan sdk.ReadOnlySpan
	stop     chan struct{} // closed: nothing more is taken
	once     sync.Once
	cancel   context.CancelFunc // ends a delivery under way
	done     chan struct{}

	mu   sync.Mutex
	told time.Time // when a loss was last logged
	lost int       // spans since
}

// quiet is how long nothing is said of further losses.
const quiet = time.Minute

func newQueue(e sdk.SpanExporter, m metrics, o Options) *queue {
	return &queue{exporter: e, m: m, o: o, spans: make(chan sdk.ReadOnlySpan, o.Queue), stop: make(chan struct{}), done: make(chan struct{})}
}

// start starts the one goroutine; finish ends it.
func (q *queue) start(ctx context.Context) {
	ctx, q.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(q.done)
		q.run(ctx)
	}()
}

// OnStart implements sdk.SpanProcessor.
func (q *queue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	select {
	case <-q.stop:
	default:
		select {
		case q.spans <- s:
			return
		default:
		}
	}
	q.lose("dropped", 1, errTooMany)
}

// Shutdown implements sdk.SpanProcessor.
func (q *queue) Shutdown(ctx context.Context) error { q.finish(ctx); return nil }

// ForceFlush implements sdk.SpanProcessor. Nothing calls it: finish delivers.
func (q *queue) ForceFlush(context.Context) error { return nil }

// finish delivers what lies in the queue, until ctx ends.
func (q *queue) finish(ctx context.Context) {
	q.once.Do(func() { close(q.stop) })
	stop := context.AfterFunc(ctx, q.cancel)
	defer stop()
	<-q.done
	q.cancel()
}

// run delivers batches: a full one at once, others when their first span has waited
// long enough.
func (q *queue) run(ctx context.Context) {
	for {
		select {
		case s := <-q.spans:
			q.deliver(ctx, q.gather(s))
		case <-q.stop:
			q.drain(ctx)
			return
		}
	}
}

// gather waits for more of a batch.
func (q *queue) gather(first sdk.ReadOnlySpan) []sdk.ReadOnlySpan {
	batch := []sdk.ReadOnlySpan{first}
	timer := time.NewTimer(q.o.Delay)
	defer timer.Stop()
	for len(batch) < q.o.Batch {
		select {
		case s := <-q.spans:
			batch = append(batch, s)
		case <-timer.C:
			return batch
		case <-q.stop:
			return q.fill(batch)
		}
	}
	return batch
}

// fill adds what lies ready.
func (q *queue) fill(batch []sdk.ReadOnlySpan) []sdk.ReadOnlySpan {
	for len(batch) < q.o.Batch {
		select {
		case s := <-q.spans:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}

// drain delivers what is left. A span that was put in while the stop came is among
// it or, at worst, uncounted.
func (q *queue) drain(ctx context.Context) {
	for batch := q.fill(nil); len(batch) > 0; batch = q.fill(nil) {
		q.deliver(ctx, batch)
	}
}

// deliver hands a batch to the collector, which has as long as it is given.
func (q *queue) deliver(ctx context.Context, batch []sdk.ReadOnlySpan) {
	ctx, cancel := context.WithTimeout(ctx, q.o.Timeout)
	defer cancel()
	rejected := 0
	err := q.exporter.ExportSpans(withRejected(ctx, &rejected), batch)
	if err != nil {
		q.lose("failed", len(batch), err)
		return
	}
	q.m.add("delivered", len(batch)-rejected)
	if rejected > 0 {
		q.lose("failed", rejected, errRejected)
	}
}

// lose counts spans and says so, once in a while.
func (q *queue) lose(outcome string, n int, err error) {
	q.m.add(outcome, n)
	q.mu.Lock()
	q.lost += n
	lost, due := q.lost, q.told.IsZero() || time.Since(q.told) >= quiet
	if due {
		q.told, q.lost = time.Now(), 0
	}
	q.mu.Unlock()
	if due {
		q.o.Log.Warn("spans lost: work goes on, traces have gaps", slog.Int("spans", lost), slog.String("outcome", outcome), slog.String("err", clean(err.Error())))
	}
}
