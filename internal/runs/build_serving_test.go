package runs

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/rail"
)

// pipes is a network without ports, so that a synctest bubble can hold it.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.done) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// serving returns a builder whose service is h.
func serving(t *testing.T, o HTTPOptions, h http.HandlerFunc) *HTTP {
	t.Helper()
	network := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Only after the request's end does net/http notice that the client left.
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		h(w, r)
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(network) }()
	transport := &http.Transport{DialContext: network.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		_ = network.Close()
		<-served
	})
	o.URL, o.Transport = "http://builder.test/build", transport
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.MaxFrameBytes == 0 {
		o.MaxFrameBytes = 1 << 20
	}
	b, err := NewHTTP(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func uuid(n byte) rail.UUID { return rail.UUID{15: n} }

// field report 17: header, idle and total deadlines all end a build.
func TestHTTPDeadlines(t *testing.T) {
	t.Parallel()
	const js = "application/json"
	hang := func(r *http.Request) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		h     http.HandlerFunc
		after time.Duration
	}{
		"accepts and never answers": {func(_ http.ResponseWriter, r *http.Request) { hang(r) }, 5 * time.Minute},
		"header, then silence": {func(w http.ResponseWriter, r *http.Request) {
			reply(200, js, "")(w, r)
			_ = http.NewResponseController(w).Flush()
			hang(r)
		}, 40 * time.Second},
		"one byte in 30 s": {func(w http.ResponseWriter, r *http.Request) {
			reply(200, js, "")(w, r)
			drip(w, r, 30*time.Second, 1)
		}, 40 * time.Second},
		"slow for ever": {func(w http.ResponseWriter, r *http.Request) {
			reply(200, js, "")(w, r)
			drip(w, r, 30*time.Second, minProgress)
		}, 15 * time.Minute},
		"an error page in drips": {func(w http.ResponseWriter, r *http.Request) {
			reply(500, "text/plain", "")(w, r)
			drip(w, r, 30*time.Second, 1)
		}, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := HTTPOptions{Timeout: 15 * time.Minute, HeaderTimeout: 5 * time.Minute, IdleTimeout: 40 * time.Second}
				b, start := serving(t, o, c.h), time.Now()
				_, _, err := b.Build(t.Context(), request())
				want := outcome{Transient, KindTimeout, "timeout"}
				if strings.HasPrefix(name, "an error") {
					want = outcome{Transient, KindHTTP5xx, "http_5xx"}
				}
				if diff := cmp.Diff(want, outcomeOf(t, err)); diff != "" {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
				if took := time.Since(start); took != c.after {
					t.Errorf("ended after %s, want %s", took, c.after)
				}
			})
		})
	}
}

// drip writes n bytes at every tick until the request ends.
func drip(w http.ResponseWriter, r *http.Request, every time.Duration, n int) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			_, _ = w.Write(bytes.Repeat([]byte(" "), n))
		}
	}
}

// field report 17, half-open: the other end is gone without a word.
func TestHTTPHalfOpenConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dead := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			return ours, nil
		}}
		b, err := NewHTTP(HTTPOptions{URL: "http://builder.test", Timeout: time.Minute, MaxFrameBytes: 1, Transport: dead})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = b.Build(t.Context(), request())
		if diff := cmp.Diff(outcome{Transient, KindTimeout, "timeout"}, outcomeOf(t, err)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestHTTPEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"canceled": KindCanceled, "deadline": KindTimeout} {
		synctest.Test(t, func(t *testing.T) {
			b := serving(t, HTTPOptions{}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if name == "canceled" {
				time.AfterFunc(time.Second, cancel)
			}
			_, _, err := b.Build(ctx, request())
			if got := outcomeOf(t, err); got.Kind != kind || got.Class != Transient {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
