package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"time"
)

// serving runs a verb that serves until it is told to end. Its lines are what it
// prints; stop ends it, and wants it to have ended well.
func serving(t *testing.T, env []string, args ...string) (lines *bufio.Scanner, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	out, in := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, args, env, nil, in, io.Discard)
		_ = in.Close() // a pipe's end never fails to close
	}()
	return bufio.NewScanner(out), func() {
		t.Helper()
		cancel()
		select {
		case got := <-code:
			if got != exitOK {
				t.Errorf("%v: exit %d, want %d", args, got, exitOK)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%v goes on after it was told to end", args)
		}
	}
}

// fetch is the answer to a GET, open until the test ends.
func fetch(t *testing.T, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}
