package web_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"briefrail/internal/web"
)

// serving serves a handler that waits for its release, with one request under way.
func serving(t *testing.T, grace time.Duration) (stop, release func(), answered, ended <-chan error) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, held := make(chan struct{}), make(chan struct{})
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		select {
		case <-held:
			_, _ = io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	})}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	end, answer := make(chan error, 1), make(chan error, 1)
	go func() { end <- web.Serve(ctx, srv, l, grace) }()
	go func() { answer <- get(context.WithoutCancel(ctx), "http://"+l.Addr().String()) }()
	within(t, entered)
	return func() { cancel(); shut(t, l.Addr()) }, func() { close(held) }, answer, end
}

// shut waits until nobody is let in any more.
func shut(t *testing.T, a net.Addr) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, a.Network(), a.String())
		switch {
		case ctx.Err() != nil:
			t.Fatal("the listener stays open")
		case err != nil:
			return
		}
		_ = conn.Close()
	}
}

// get is an error unless the whole answer came.
func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != "done" {
		return errors.Join(errors.New("half an answer"), err)
	}
	return nil
}

// within waits for what must come.
func within[T any](t *testing.T, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(time.Minute):
		t.Fatal("nothing comes")
	}
	return got
}

func TestAnEndLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	stop, release, answered, ended := serving(t, time.Minute)
	stop()
	release()
	if err := within(t, answered); err != nil {
		t.Errorf("the request under way: %v", err)
	}
	if err := within(t, ended); err != nil {
		t.Errorf("an end that was asked for: %v", err)
	}
}

func TestAnEndWaitsForNobodyForEver(t *testing.T) {
	t.Parallel()
	stop, _, answered, ended := serving(t, time.Millisecond)
	stop()
	if err := within(t, ended); err != nil {
		t.Errorf("an end that was asked for: %v", err)
	}
	if err := within(t, answered); err == nil {
		t.Error("what nobody answered was answered")
	}
}

func TestAListenerThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := web.Serve(t.Context(), &http.Server{ReadHeaderTimeout: time.Minute}, l, time.Second); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestHostname(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"Rail.Example:8080": "rail.example", "rail.example": "rail.example", "[::1]:80": "::1", "[::1]": "::1", "": ""} {
		if got := web.Hostname(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
