// Package tracetest is a collector that tests send spans to, and read them from.
//
// It serves tests only and owns nothing.
package tracetest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// ID names a span: its trace's id and its own, in hexadecimal.
type ID struct{ Trace, Span string }

// Span is one span as it arrived.
type Span struct {
	ID      ID
	Parent  string // span id, "" for the first of its trace
	Name    string
	Kind    int32
	Links   []ID
	Attrs   map[string]string
	Failure string
	Failed  bool
	Service string
}

// Collector takes OTLP over HTTP.
type Collector struct {
	URL string // its base

	mu      sync.Mutex
	spans   []Span
	headers []http.Header
	status  int    // of an answer; 0 for 200
	answer  []byte // of a success
	held    chan struct{}
}

// New starts a collector that lives as long as the test.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	t.Cleanup(c.Release)
	c.URL = server.URL
	return c
}

// Answer sets what every further request is answered with: a status, 0 for success,
// and the body of a success.
func (c *Collector) Answer(status int, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.answer = status, body
}

// Hold keeps every further request without an answer until Release.
func (c *Collector) Hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = make(chan struct{})
}

// Release answers what is held.
func (c *Collector) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held != nil {
		close(c.held)
		c.held = nil
	}
}

// Spans are those that arrived.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Headers are those of every request, also of those that were refused.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	held, status, answer := c.held, c.status, c.answer
	c.headers = append(c.headers, r.Header.Clone())
	c.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
			return
		}
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		if z, err := gzip.NewReader(body); err == nil {
			body = z
		}
	}
	text, err := io.ReadAll(body)
	var data tracepb.TracesData
	switch {
	case status != 0:
		w.WriteHeader(status)
		return
	case err != nil, r.URL.Path != "/v1/traces", r.Header.Get("Content-Type") != "application/x-protobuf", proto.Unmarshal(text, &data) != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.take(&data)
	_, _ = w.Write(answer)
}

func (c *Collector) take(data *tracepb.TracesData) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range data.GetResourceSpans() {
		service := attrs(rs.GetResource().GetAttributes())["service.name"]
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				c.spans = append(c.spans, spanOf(s, service))
			}
		}
	}
}

func spanOf(s *tracepb.Span, service string) Span {
	out := Span{
		ID: ID{hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetSpanId())}, Parent: hex.EncodeToString(s.GetParentSpanId()),
		Name: s.GetName(), Kind: int32(s.GetKind()), Attrs: attrs(s.GetAttributes()), Service: service,
		Failure: s.GetStatus().GetMessage(), Failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, ID{hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId())})
	}
	return out
}

func attrs(list []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range list {
		text := kv.GetValue().GetStringValue()
		if text == "" {
			text = kv.GetValue().String()
		}
		out[kv.GetKey()] = text
	}
	return out
}
