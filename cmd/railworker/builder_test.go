package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

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
	cut    int // calls whose connection went before they were answered
	script func(ctx context.Context, w http.ResponseWriter, c call)
	server *http.Server
	end    context.CancelFunc
}

// serve starts a build service; a nil script answers at once.
func serve(t testing.TB, script func(ctx context.Context, w http.ResponseWriter, c call)) *service {
	t.Helper()
	s := &service{script: script}
	address, err := s.listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.URL = "http://" + address
	t.Cleanup(s.die)
	return s
}

// listen serves at an address until the service dies.
func (s *service) listen(address string) (string, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	// Requests in flight end with the service, whatever their script waits for.
	ending, end := context.WithCancel(context.Background())
	server := &http.Server{Handler: http.HandlerFunc(s.handle), BaseContext: func(net.Listener) context.Context { return ending }}
	s.mu.Lock()
	s.server, s.end = server, end
	s.mu.Unlock()
	go func() { _ = server.Serve(l) }()
	return l.Addr().String(), nil
}

// die is what kill -9 looks like from outside: nobody listens, and every connection
// is cut in the middle of whatever it carried.
func (s *service) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.server.Close()
	s.end()
}

// revive has a service that died listen again where it did.
func (s *service) revive(t testing.TB) {
	address := strings.TrimPrefix(s.URL, "http://")
	var err error
	if !waitFor(t.Context(), 10*time.Second, func() bool { _, err = s.listen(address); return err == nil }) {
		t.Errorf("the build service cannot listen again: %v", err)
	}
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
	if r.Context().Err() != nil {
		s.mu.Lock()
		s.cut++
		s.mu.Unlock()
	}
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

// repeatable is how many calls may have come twice: net/http repeats a request, with
// its Idempotency-Key, that a kept connection has lost.
func (s *service) repeatable() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
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
