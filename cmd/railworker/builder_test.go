package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"briefrail/internal/rail"
)

// call is one request that the build service got.
type call struct {
	rail.Key
	Generation int64      `json:"generation"`
	Run        rail.UUID  `json:"run_id"`
	Attempt    int        `json:"attempt"`
	RetryOf    *rail.UUID `json:"retry_of"`
}

// service is a build service that a test scripts, and that remembers every call.
type service struct {
	URL string

	mu     sync.Mutex
	calls  []call
	script func(ctx context.Context, w http.ResponseWriter, c call)
}

// serve starts a build service; a nil script answers at once.
func serve(t testing.TB, script func(ctx context.Context, w http.ResponseWriter, c call)) *service {
	t.Helper()
	s := &service{script: script}
	server := httptest.NewUnstartedServer(http.HandlerFunc(s.handle))
	// Requests in flight end with the test, whatever their script waits for.
	ending, end := context.WithCancel(context.Background())
	server.Config.BaseContext = func(net.Listener) context.Context { return ending }
	server.Start()
	t.Cleanup(func() { end(); server.CloseClientConnections(); server.Close() })
	s.URL = server.URL
	return s
}

func (s *service) handle(w http.ResponseWriter, r *http.Request) {
	var c call
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || r.Header.Get("Idempotency-Key") != c.Run.String() {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.calls = append(s.calls, c)
	script := s.script
	s.mu.Unlock()
	if script == nil {
		answer(w, c)
		return
	}
	script(r.Context(), w, c)
}

// answer writes a frame that says by whom it was built.
func answer(w http.ResponseWriter, c call) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"firm_id":%q,"matter_id":%q,"generation":%d,"schema_version":"test/1","builder_version":"test/1",
		"frame":{"generation":%d,"run":%q},"usage":{"model_calls":1}}`, c.Firm, c.Matter, c.Generation, c.Generation, c.Run)
}

func (s *service) follow(script func(ctx context.Context, w http.ResponseWriter, c call)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

func (s *service) seen() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]call(nil), s.calls...)
}

func (s *service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// held is a script that keeps every call until it is released; each released call
// answers.
type held struct{ open chan struct{} }

func newHeld() *held { return &held{open: make(chan struct{})} }

func (h *held) script(ctx context.Context, w http.ResponseWriter, c call) {
	select {
	case <-h.open:
		answer(w, c)
	case <-ctx.Done():
	}
}

func (h *held) release() { close(h.open) }
