package tracing

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	sdktest "go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"briefrail/internal/telemetry/telemetrytest"
)

// sink is an exporter that a test scripts.
type sink struct {
	mu      sync.Mutex
	batches []int
	err     error
	hang    bool // until the batch's time is over
}

func (s *sink) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if s.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, len(spans))
	return s.err
}

// sizes are those of the batches so far.
func (s *sink) sizes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

func (s *sink) Shutdown(context.Context) error { return nil }

// started is a queue over a sink, of four spans, two a batch.
func started(t *testing.T, s *sink, log io.Writer) *queue {
	t.Helper()
	q := newQueue(s, newMetrics(prometheus.NewRegistry()), Options{
		Queue: 4, Batch: 2, Delay: time.Second, Timeout: 10 * time.Second, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	q.start(t.Context())
	return q
}

func (q *queue) counted(outcome string) float64 {
	return testutil.ToFloat64(q.m.spans.WithLabelValues(outcome))
}

// end ends n spans.
func end(q *queue, n int) {
	c := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
	for range n {
		q.OnEnd(sdktest.SpanStub{Name: "x", SpanContext: c}.Snapshot())
	}
}

func TestBatchesAreFullOrLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		q := started(t, s, io.Discard)
		end(q, 3)
		synctest.Wait()
		if got := s.sizes(); !slices.Equal(got, []int{2}) {
			t.Errorf("at once: %v", got)
		}
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if got := s.sizes(); !slices.Equal(got, []int{2, 1}) || q.counted("delivered") != 3 {
			t.Errorf("after the delay: %v", got)
		}
		end(q, 1)
		q.finish(t.Context())
		if got := s.sizes(); !slices.Equal(got, []int{2, 1, 1}) || q.counted("delivered") != 4 {
			t.Errorf("at the stop: %v", got)
		}
		end(q, 1)
		if q.counted("dropped") != 1 {
			t.Error("a span after the stop is not counted")
		}
	})
}

// A collector that answers nothing costs the spans that find no place, at once, and
// nobody waits; a stop waits as long as it may and not longer.
func TestAHangingCollectorHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &telemetrytest.Log{}
		q := started(t, &sink{hang: true}, log)
		end(q, 2)
		synctest.Wait()
		begun := time.Now()
		end(q, 100)
		if time.Since(begun) != 0 || q.counted("dropped") != 96 {
			t.Errorf("%s, %v dropped", time.Since(begun), q.counted("dropped"))
		}
		time.Sleep(11 * time.Second)
		if q.counted("failed") != 2 {
			t.Errorf("%v failed", q.counted("failed"))
		}
		if n := strings.Count(log.String(), "spans lost"); n != 1 {
			t.Errorf("said %d times in a minute", n)
		}
		time.Sleep(2 * time.Minute)
		end(q, 100)
		time.Sleep(time.Second)
		if n := strings.Count(log.String(), "spans lost"); n != 2 {
			t.Errorf("said %d times in three minutes", n)
		}
		stop, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begun = time.Now()
		q.finish(stop)
		if d := time.Since(begun); d > 3*time.Second {
			t.Errorf("a stop took %s", d)
		}
		if q.counted("failed")+q.counted("dropped") != 202 {
			t.Errorf("%v failed, %v dropped of 202", q.counted("failed"), q.counted("dropped"))
		}
	})
}

func TestAFailedBatchIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &telemetrytest.Log{}
		q := started(t, &sink{err: errors.New("no\nway\xff")}, log)
		end(q, 2)
		q.finish(t.Context())
		if q.counted("failed") != 2 || q.counted("delivered") != 0 || strings.Count(log.String(), `err="no way`) != 1 {
			t.Errorf("%v failed: %s", q.counted("failed"), log.String())
		}
	})
}
