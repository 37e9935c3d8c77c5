package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"briefrail/internal/rail"
	"briefrail/internal/telemetry/tracing"
	"briefrail/internal/telemetry/tracing/tracetest"
)

func options(c *tracetest.Collector) tracing.Options {
	return tracing.Options{
		URL: c.URL + "/v1/traces", Timeout: 5 * time.Second, Sampler: "parentbased_always_on", Ratio: 1, Service: "test",
		Queue: 2048, Batch: 512, Delay: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
}

// traced runs f with a tracer and returns what arrived, once all of it did.
func traced(t *testing.T, change func(*tracing.Options), f func(ctx context.Context, tr rail.Tracer)) []tracetest.Span {
	t.Helper()
	c := tracetest.New(t)
	o := options(c)
	if change != nil {
		change(&o)
	}
	tr, err := tracing.Start(t.Context(), prometheus.NewRegistry(), o)
	if err != nil {
		t.Fatal(err)
	}
	f(t.Context(), tr.Tracer())
	tr.Stop(t.Context())
	return c.Spans()
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Not parallel: it looks at every goroutine there is.
func TestOffIsNothingAtAll(t *testing.T) {
	reg := prometheus.NewRegistry()
	tr, err := tracing.Start(t.Context(), reg, tracing.Options{})
	if err != nil || tr != nil || tr.Tracer() != nil {
		t.Fatalf("%v %v", tr, err)
	}
	tr.Stop(t.Context())
	var buf [1 << 20]byte
	if s := string(buf[:runtime.Stack(buf[:], true)]); strings.Contains(s, "go.opentelemetry.io") {
		t.Error("a goroutine of OpenTelemetry runs")
	}
	if n, err := testutil.GatherAndCount(reg, "rail_trace_spans_total"); n != 3 || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
	ctx := t.Context()
	cost := testing.AllocsPerRun(100, func() {
		_, end := tr.Tracer().Begin(ctx, rail.Span{Name: "x"})
		end("")
	})
	if cost != 0 {
		t.Errorf("a span that nobody records costs %v allocations", cost)
	}
}

// A run's ids are those that its row says, a malformed cause is no cause, and one
// that is named twice is linked once.
func TestARunIsARootThatLinksItsCauses(t *testing.T) {
	t.Parallel()
	run := rail.Token{Run: rail.NewUUID()}
	spans := traced(t, nil, func(ctx context.Context, tr rail.Tracer) {
		ctx, end := tr.Begin(ctx, rail.Span{Name: "run", Run: run.Run, Links: []rail.TraceContext{
			{Parent: parent, State: "a=b"},
			{Parent: parent},
			{},
			{Parent: "nonsense"},
			{Parent: strings.Replace(parent, "0af7", "0AF7", 1)},
			{Parent: "00-00000000000000000000000000000000-b7ad6b7169203331-01"},
			{Parent: "ff" + parent[2:]},
		}})
		if got := rail.TraceOf(ctx).Parent; got != run.TraceParent() {
			t.Errorf("goes by %s, want %s", got, run.TraceParent())
		}
		_, inner := tr.Begin(ctx, rail.Span{Name: "build", Kind: rail.Calls})
		inner("")
		_, lost := tr.Begin(ctx, rail.Span{Name: "nowhere", Parent: rail.TraceContext{Parent: "nonsense"}})
		lost("")
		end("")
	})
	if len(spans) != 2 || spans[1].ID.Trace != run.TraceID() || len(spans[1].Links) != 1 || spans[0].Parent != spans[1].ID.Span || spans[0].Kind != 3 {
		t.Errorf("got %+v", spans)
	}
}

func TestSampling(t *testing.T) {
	t.Parallel()
	off := strings.TrimSuffix(parent, "1") + "0"
	both := []rail.TraceContext{{Parent: off}, {Parent: strings.Replace(parent, "b7", "b8", 1)}}
	for _, c := range []struct {
		sampler string
		span    rail.Span
		want    bool
	}{
		{"parentbased_always_on", rail.Span{}, true},
		{"parentbased_always_off", rail.Span{}, false},
		{"parentbased_always_on", rail.Span{Links: []rail.TraceContext{{Parent: off}}}, false},
		{"parentbased_always_off", rail.Span{Links: []rail.TraceContext{{Parent: parent}}}, true},
		{"parentbased_always_off", rail.Span{Links: both}, true},
		{"parentbased_always_on", rail.Span{Links: []rail.TraceContext{{Parent: "nonsense"}}}, true},
		{"parentbased_always_on", rail.Span{Parent: rail.TraceContext{Parent: off}}, false},
		{"parentbased_always_off", rail.Span{Parent: rail.TraceContext{Parent: parent}}, true},
		{"always_on", rail.Span{Links: []rail.TraceContext{{Parent: off}}}, true},
		{"always_off", rail.Span{Links: []rail.TraceContext{{Parent: parent}}}, false},
	} {
		c.span.Name = "x"
		spans := traced(t, func(o *tracing.Options) { o.Sampler = c.sampler }, func(ctx context.Context, tr rail.Tracer) {
			ctx, end := tr.Begin(ctx, c.span)
			if flag := strings.HasSuffix(rail.TraceOf(ctx).Parent, "-01"); flag != c.want {
				t.Errorf("%s of %+v: flag %v", c.sampler, c.span, flag)
			}
			end("")
		})
		if (len(spans) == 1) != c.want {
			t.Errorf("%s of %+v: %d spans", c.sampler, c.span, len(spans))
		}
	}
}

// The ids of runs are UUIDs, some of whose bits are always the same.
func TestAPartOfAllRunsIsRecorded(t *testing.T) {
	t.Parallel()
	spans := traced(t, func(o *tracing.Options) { o.Sampler, o.Ratio, o.Queue = "parentbased_traceidratio", 0.25, 5000 }, func(ctx context.Context, tr rail.Tracer) {
		for range 4000 {
			_, end := tr.Begin(ctx, rail.Span{Name: "run", Run: rail.NewUUID()})
			end("")
		}
	})
	if len(spans) < 800 || len(spans) > 1200 { // 7 deviations to either side
		t.Errorf("%d of 4000 are recorded, want a quarter", len(spans))
	}
}

// What others wrote is cut and made valid, as names, keys, values and failures.
func TestHostileTextsAreTamed(t *testing.T) {
	t.Parallel()
	hostile := "a\n\x00\xff\u202e" + strings.Repeat("é", 10000)
	spans := traced(t, nil, func(ctx context.Context, tr rail.Tracer) {
		attrs := []rail.Attr{rail.Text(hostile, hostile), {Key: "err", Value: slog.AnyValue(errors.New(hostile))}, rail.Number("n", 1)}
		_, end := tr.Begin(ctx, rail.Span{Name: hostile, Attrs: attrs})
		end(hostile, rail.Text("k", hostile))
	})
	if len(spans) != 1 || !spans[0].Failed {
		t.Fatalf("got %+v", spans)
	}
	s := spans[0]
	texts := []string{s.Name, s.Failure}
	for k, v := range s.Attrs {
		texts = append(texts, k, v)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) || len(text) > 510 || strings.ContainsAny(text, "\n\x00") {
			t.Errorf("%d bytes: %.40q", len(text), text)
		}
	}
}

// Throttling is waited out, a refusal is not tried again, what is taken in part is
// counted in part, and headers are read for each request.
func TestWhatTheCollectorAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status            int
		answer            []byte
		delivered, failed float64
		atLeast, atMost   int
		recovers          bool
	}{
		{status: http.StatusOK, delivered: 3, atLeast: 1, atMost: 1},
		{status: http.StatusOK, answer: []byte{0x0a, 2, 0x08, 1}, delivered: 2, failed: 1, atLeast: 1, atMost: 1},
		{status: http.StatusOK, answer: []byte("not protobuf"), delivered: 3, atLeast: 1, atMost: 1},
		{status: http.StatusForbidden, failed: 3, atLeast: 1, atMost: 1},
		{status: http.StatusTemporaryRedirect, failed: 3, atLeast: 1, atMost: 1},
		{status: http.StatusServiceUnavailable, delivered: 3, atLeast: 2, atMost: 1000, recovers: true},
	} {
		collector, reg := tracetest.New(t), prometheus.NewRegistry()
		if c.status != http.StatusOK {
			collector.Answer(c.status, nil)
		} else {
			collector.Answer(0, c.answer)
		}
		o, n := options(collector), 0
		o.Gzip, o.Timeout, o.Batch, o.Delay = true, time.Minute, 3, time.Minute
		o.Headers = func() ([][2]string, error) { n++; return [][2]string{{"api-key", "s3cret"}}, nil }
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		tr, err := tracing.Start(t.Context(), reg, o)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			_, end := tr.Tracer().Begin(t.Context(), rail.Span{Name: "x"})
			end("")
		}
		if c.recovers {
			for len(collector.Headers()) == 0 {
				runtime.Gosched()
			}
			collector.Answer(0, nil)
		}
		tr.Stop(t.Context())
		expected := strings.NewReplacer("$d", ftoa(c.delivered), "$f", ftoa(c.failed)).Replace(`# HELP rail_trace_spans_total Ended spans, by what became of them: delivered to the collector, refused by it or not delivered in time, or dropped as too many waited.
# TYPE rail_trace_spans_total counter
rail_trace_spans_total{outcome="delivered"} $d
rail_trace_spans_total{outcome="dropped"} 0
rail_trace_spans_total{outcome="failed"} $f
`)
		if err := testutil.GatherAndCompare(reg, strings.NewReader(expected), "rail_trace_spans_total"); err != nil {
			t.Errorf("%d: %v", c.status, err)
		}
		got := collector.Headers()
		if len(got) < c.atLeast || len(got) > c.atMost || got[0].Get("Api-Key") != "s3cret" || n != len(got) {
			t.Errorf("%d: %d requests, headers read %d times", c.status, len(got), n)
		}
		if strings.Contains(log.String(), "s3cret") || strings.Contains(log.String(), collector.URL) {
			t.Errorf("the log says too much: %s", &log)
		}
	}
}

func ftoa(f float64) string { return string(rune('0' + int(f))) }

func TestABadCertificateIsToldAtTheStart(t *testing.T) {
	t.Parallel()
	o := options(tracetest.New(t))
	o.Certificate = "/dev/null"
	if _, err := tracing.Start(t.Context(), prometheus.NewRegistry(), o); err == nil || !strings.Contains(err.Error(), "tracing.certificate") {
		t.Error(err)
	}
}
