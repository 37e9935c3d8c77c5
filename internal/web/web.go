// Package web is what the listeners and pages of all programs have in common: how a
// listener ends, what a page tells a browser, and by which name it was asked for.
//
// It owns no route and no state, and decides about nobody: who may ask is for the
// handler around to say. It does not promise that a request under way is finished,
// only that it has its time.
package web

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"
)

// Serve serves until ctx ends, then takes no more requests, lets those under way finish
// for grace at most, and cuts off what is left. An end that was asked for is no error.
func Serve(ctx context.Context, srv *http.Server, l net.Listener, grace time.Duration) error {
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if srv.Shutdown(stop) != nil {
		_ = srv.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// policy lets a page use its own style and script and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Guard sets the headers that every answer of a page has: nothing of others is loaded,
// nobody frames it, and nothing is kept. referrer is whom a browser tells where it was.
func Guard(h http.Header, referrer string) {
	for name, value := range map[string]string{
		"Content-Security-Policy":      policy,
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              referrer,
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-store",
	} {
		h.Set(name, value)
	}
}

// Hostname is a Host header without its port and brackets.
func Hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// File serves one file that is built in, as the kind that it is.
func File(files fs.FS, name, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		data, err := fs.ReadFile(files, name)
		if err != nil { // unreachable: the compiler has put it there
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data) // the browser may have gone
	}
}
