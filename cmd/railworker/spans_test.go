package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/telemetry/tracing/tracetest"
)

const producersTrace = "0af7651916cd43dd8448eb211c80319c"

// tellTraced appends a fact as a producer that traces its transaction does.
func tellTraced(t *testing.T, db *pgtest.DB, k rail.Key, parent string) {
	t.Helper()
	_, err := db.Pool.Exec(t.Context(), `INSERT INTO ops.domain_event_outbox (firm_id, matter_id, event_name, traceparent, tracestate) VALUES ($1, $2, $3, $4, 'a=b')`,
		k.Firm, k.Matter, uploaded, parent)
	if err != nil {
		t.Fatal(err)
	}
}

// spansOf are the spans of that name.
func spansOf(spans []tracetest.Span, name string) (out []tracetest.Span) {
	for _, s := range spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

func linksTo(s tracetest.Span, trace string) bool {
	for _, l := range s.Links {
		if l.Trace == trace {
			return true
		}
	}
	return false
}

// parents keeps the traceparent of every call of a builder.
type parents struct {
	mu   sync.Mutex
	seen []string
}

// listen stands before a build service.
func (p *parents) listen(t *testing.T, s *service) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.seen = append(p.seen, r.Header.Get("Traceparent"))
		p.mu.Unlock()
		s.handle(w, r)
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL
}

func (p *parents) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.seen...)
}

// One fact of a producer that traces, from its transaction over relay, bus, queue,
// worker and builder to the landed frame: every step is a span, and the links join
// the producer's trace with the landing, in both directions.
func TestOneTraceJoinsTheWholeRail(t *testing.T) {
	t.Parallel()
	c, calls := tracetest.New(t), &parents{}
	builder := serve(t, nil)
	calls.listen(t, builder)
	r := newRail(t, builder, awsfake.Layout{})
	r.aws = append(r.aws, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_BSP_SCHEDULE_DELAY=20", "OTEL_EXPORTER_OTLP_HEADERS=api-key=s%20t")
	r.worker["TRIGGER_GRACE"] = "1m" // the nudge has to do it
	r.startRelay(t)
	worker := r.startWorker(t)
	worker.awaitStart(t)
	k := newKey()
	tellTraced(t, r.db, k, "00-"+producersTrace+"-b7ad6b7169203331-01")
	awaitStatus(t, r.db.Pool, k, "idle")
	awaitQuiet(t, r.db.Pool, time.Minute)
	run := strings.ReplaceAll(one[string](t, r.db.Pool, `SELECT run_id::text FROM ops.matter_frame_runs WHERE outcome = 'landed'`), "-", "")
	eventually(t, time.Minute, "the run and what follows are in the collector", func() bool {
		spans := c.Spans()
		linked := func(name, trace string) bool {
			return slices.ContainsFunc(spansOf(spans, name), func(s tracetest.Span) bool { return linksTo(s, trace) })
		}
		return len(spansOf(spans, "run")) == 1 && len(spansOf(spans, "rebuild")) == 1 && linked("process nudges", producersTrace) &&
			linked("send "+r.places.Bus, producersTrace) && linked("send "+r.places.Bus, run)
	})
	assertStory(t, c.Spans(), run, r.places.Bus)
	if build := spansOf(c.Spans(), "build"); len(build) != 1 || len(calls.all()) != 1 || calls.all()[0] != "00-"+run+"-"+build[0].ID.Span+"-01" {
		t.Errorf("the builder was called with %q, its span is %+v", calls.all(), build)
	}
	if got := c.Headers()[0].Get("Api-Key"); got != "s t" {
		t.Errorf("the collector got the key %q", got)
	}
	if got := worker.log.field("run ended", "trace_id"); got != run {
		t.Errorf("the log says trace %s of run %s", got, run)
	}
	if got := worker.log.field("run ended", "span_id"); got != run[:16] {
		t.Errorf("the log says span %s of run %s", got, run)
	}
}

// assertStory follows the links from the producer's trace to the landing and back.
func assertStory(t *testing.T, spans []tracetest.Span, run, bus string) {
	t.Helper()
	first := map[string]tracetest.Span{}
	for _, s := range spans {
		if linksTo(s, producersTrace) {
			first[s.Name] = s
		}
	}
	for name, service := range map[string]string{"send " + bus: "outbox-relay", "process nudges": "railworker", "run": "railworker"} {
		if s, ok := first[name]; !ok || s.Service != service || s.Parent != "" {
			t.Errorf("%s: no first span of a trace that links the producer's: %+v", name, spansOf(spans, name))
		}
	}
	if got := first["run"]; got.ID != (tracetest.ID{Trace: run, Span: run[:16]}) || got.Attrs["rail.outcome"] != "landed" || got.Attrs["rail.token"] == "" || got.Attrs["rail.epoch"] == "" {
		t.Errorf("run %s is traced as %+v", run, got)
	}
	for _, name := range []string{"build", "land"} {
		if s := spansOf(spans, name); len(s) != 1 || s[0].ID.Trace != run || s[0].Parent != run[:16] || s[0].Failed {
			t.Errorf("%s is no part of the run: %+v", name, s)
		}
	}
	back := spansOf(spans, "rebuild")
	if len(back) != 1 || back[0].ID.Trace != producersTrace || back[0].Parent != "b7ad6b7169203331" || !linksTo(back[0], run) {
		t.Errorf("the producer's trace does not name the run: %+v", back)
	}
	// the landing's own fact goes on from the run
	for _, s := range spansOf(spans, "send "+bus) {
		if linksTo(s, run) {
			return
		}
	}
	t.Error("the fact of the landing was sent without a link to its run")
}

// What a producer does not record is not recorded here, and a trace that cannot be
// read is none: both facts land all the same.
func TestTheProducersSampledFlagHolds(t *testing.T) {
	t.Parallel()
	c, db, calls := tracetest.New(t), pgtest.New(t), &parents{}
	builder := serve(t, nil)
	calls.listen(t, builder)
	s := quick(db.DSN, builder.URL)
	p := launchIn(t, self(t), append(s.environ(), "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+c.URL+"/v1/traces", "OTEL_BSP_SCHEDULE_DELAY=20"), "run")
	p.awaitStart(t)
	unsampled, malformed := newKey(), newKey()
	tellTraced(t, db, unsampled, "00-"+producersTrace+"-b7ad6b7169203331-00")
	awaitStatus(t, db.Pool, unsampled, "idle")
	tellTraced(t, db, malformed, "00-00000000000000000000000000000000-b7ad6b7169203331-01") // the table takes it; it names no trace
	awaitStatus(t, db.Pool, malformed, "idle")
	runOf := func(k rail.Key) string {
		return strings.ReplaceAll(one[string](t, db.Pool, `SELECT run_id::text FROM ops.matter_frame_runs WHERE matter_id = $1 AND outcome = 'landed'`, k.Matter), "-", "")
	}
	eventually(t, time.Minute, "the run of the second is in the collector", func() bool { return len(spansOf(c.Spans(), "run")) > 0 })
	p.signal(syscall.SIGTERM)
	if code := p.await(t, time.Minute); code != 0 {
		t.Errorf("ended with %d", code)
	}
	for _, span := range c.Spans() {
		if span.ID.Trace == producersTrace || span.ID.Trace == runOf(unsampled) || linksTo(span, producersTrace) {
			t.Errorf("recorded all the same: %+v", span)
		}
	}
	if run := spansOf(c.Spans(), "run"); len(run) != 1 || run[0].ID.Trace != runOf(malformed) || len(run[0].Links) != 0 {
		t.Errorf("the run without a trace of a producer: %+v", run)
	}
	if seen := calls.all(); len(seen) != 2 || !strings.HasPrefix(seen[0], "00-"+runOf(unsampled)) || !strings.HasSuffix(seen[0], "-00") || !strings.HasSuffix(seen[1], "-01") {
		t.Errorf("builder called with %q", seen)
	}
	told := `SELECT traceparent FROM ops.domain_event_outbox WHERE event_name = 'brief.landed' AND matter_id = $1`
	if got := one[string](t, db.Pool, told, unsampled.Matter); got != "00-"+runOf(unsampled)+"-"+runOf(unsampled)[:16]+"-00" {
		t.Errorf("brief.landed says %s", got)
	}
}

// A collector that is away, that answers nothing or that refuses costs spans, which
// are counted and told of once, and nothing else: work and stop go on.
func TestACollectorThatIsAwayHoldsUpNobody(t *testing.T) {
	t.Parallel()
	held, refusing := tracetest.New(t), tracetest.New(t)
	held.Hold()
	refusing.Answer(http.StatusForbidden, nil)
	for name, url := range map[string]string{"away": "http://127.0.0.1:1", "silent": held.URL, "refusing": refusing.URL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			s := quick(db.DSN, serve(t, nil).URL)
			p := launchIn(t, self(t), append(s.environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+url, "OTEL_BSP_SCHEDULE_DELAY=20", "OTEL_BSP_MAX_QUEUE_SIZE=2",
				"OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1", "OTEL_EXPORTER_OTLP_TIMEOUT=300"), "run")
			p.awaitStart(t)
			keys := newKeys(2, 40)
			tell(t, db.Pool, uploaded, keys...)
			awaitQuiet(t, db.Pool, 2*time.Minute)
			assertCurrent(t, db.Pool)
			lost := func() float64 {
				return p.metric(`rail_trace_spans_total{outcome="failed"}`) + p.metric(`rail_trace_spans_total{outcome="dropped"}`)
			}
			eventually(t, time.Minute, "lost spans are counted", func() bool { return lost() > 20 })
			if n := p.metric(`rail_trace_spans_total{outcome="delivered"}`); n != 0 {
				t.Errorf("%v were delivered", n)
			}
			if n := strings.Count(p.log.String(), "spans lost"); n == 0 || n > 3 {
				t.Errorf("said %d times", n)
			}
			p.signal(syscall.SIGTERM)
			if code := p.await(t, time.Minute); code != 0 {
				t.Errorf("ended with %d", code)
			}
		})
	}
}

// Nothing is traced unless a collector is named, whatever else the machine is told.
func TestWithoutACollectorNothingIsTraced(t *testing.T) {
	t.Parallel()
	db, calls := pgtest.New(t), &parents{}
	builder := serve(t, nil)
	calls.listen(t, builder)
	p := launchIn(t, self(t), append(quick(db.DSN, builder.URL).environ(), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_TRACES_SAMPLER=always_on"), "run")
	p.awaitStart(t)
	k := newKey()
	tell(t, db.Pool, uploaded, k)
	awaitStatus(t, db.Pool, k, "idle")
	var sum float64
	for _, o := range []string{"delivered", "failed", "dropped"} {
		sum += p.metric(fmt.Sprintf(`rail_trace_spans_total{outcome=%q}`, o))
	}
	run := strings.ReplaceAll(one[string](t, db.Pool, `SELECT run_id::text FROM ops.matter_frame_runs`), "-", "")
	if seen := calls.all(); sum != 0 || len(seen) != 1 || seen[0] != "00-"+run+"-"+run[:16]+"-01" {
		t.Errorf("%v spans; the builder was called with %q", sum, seen)
	}
}
