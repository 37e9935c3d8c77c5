package api_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// What a wire does to a request.
const (
	carry    = iota
	cutFirst // the connection ends before the request has arrived anywhere
	cutReply // it ends when the answer was made and before it has arrived
)

// wire stands between a client and one rail, and remembers what passed.
type wire struct {
	url  string
	to   string
	mu   sync.Mutex
	fate func(*http.Request) int
	seen []string // METHOD and the last word of the path, of each request that came
	sent []string // bodies of intents
	held chan struct{}
}

func newWire(t *testing.T, to string, fate func(*http.Request) int) *wire {
	t.Helper()
	w := &wire{to: to, fate: fate}
	srv := httptest.NewServer(w)
	t.Cleanup(srv.Close)
	w.url = srv.URL
	return w
}

// always carries everything.
func always(*http.Request) int { return carry }

// firstPost has one fate for the first intent that is sent, and carries what follows.
func firstPost(fate int) func(*http.Request) int {
	n := 0
	return func(r *http.Request) int {
		if r.Method == http.MethodPost {
			if n++; n == 1 {
				return fate
			}
		}
		return carry
	}
}

func (w *wire) becomes(fate func(*http.Request) int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fate = fate
}

// passed is what came so far, like "POST GET POST".
func (w *wire) passed() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.seen, " ")
}

func (w *wire) note(r *http.Request, body []byte) (fate int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what := r.Method
	if strings.HasSuffix(r.URL.Path, "/authority") {
		what = "LOOK"
	}
	w.seen = append(w.seen, what)
	if len(body) > 0 {
		w.sent = append(w.sent, string(body))
	}
	return w.fate(r)
}

func (w *wire) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fate := w.note(r, body)
	if err != nil || fate == cutFirst {
		panic(http.ErrAbortHandler) // ends the connection
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, w.to+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	req.Header = r.Header.Clone()
	resp, err := new(http.Client).Do(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || fate == cutReply {
		if w.held != nil {
			<-w.held
		}
		panic(http.ErrAbortHandler)
	}
	for name, values := range resp.Header {
		out.Header()[name] = values
	}
	out.WriteHeader(resp.StatusCode)
	_, _ = out.Write(answer)
}
