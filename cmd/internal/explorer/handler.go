package explorer

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/netip"
	"time"

	"briefrail/internal/web"
)

// Options of the page. The zero value is usable.
type Options struct {
	// Host decides by which names, without port, the page may be asked for. Nil is
	// Loopback.
	Host func(name string) bool

	// MaxStates and CheckTime end a check; what it found until then is shown. Zero
	// is 500 000 states, and 10 seconds.
	MaxStates int
	CheckTime time.Duration
}

// Loopback accepts the names of this machine for itself: localhost and the
// addresses that never leave it.
func Loopback(name string) bool {
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || (err == nil && ip.Unmap().IsLoopback())
}

// NoName accepts localhost and addresses. Whoever asks by address was not led here
// by a name of somebody else's.
func NoName(name string) bool {
	_, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil
}

//go:embed page.html explorer.css explorer.js
var files embed.FS

// mostQuery is the longest query that is read, in bytes.
const mostQuery = 2048

// server answers requests.
type server struct {
	opts   Options
	page   *template.Template
	checks *checks
}

// Handler serves the page at "/", with its style and script beside it.
func Handler(opts Options) http.Handler {
	if opts.Host == nil {
		opts.Host = Loopback
	}
	if opts.MaxStates == 0 {
		opts.MaxStates = 500_000
	}
	if opts.CheckTime == 0 {
		opts.CheckTime = 10 * time.Second
	}
	s := &server{
		opts: opts, checks: newChecks(opts),
		page: template.Must(template.New("page.html").Funcs(template.FuncMap{"grouped": grouped, "move": newMove}).ParseFS(files, "page.html")),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.show)
	for name, kind := range map[string]string{"explorer.css": "text/css; charset=utf-8", "explorer.js": "text/javascript; charset=utf-8"} {
		mux.HandleFunc("GET /"+name, web.File(files, name, kind))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			s.refuse(w, http.StatusMethodNotAllowed, fmt.Errorf("the page is only read: %s is not answered", r.Method))
			return
		}
		s.refuse(w, http.StatusNotFound, errors.New("there is nothing at this address: go back to the start"))
	})
	return s.guarded(mux)
}

// guarded sets the headers of every answer, and refuses names that are not ours.
func (s *server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.Guard(w.Header(), "no-referrer")
		if name := web.Hostname(r.Host); !s.opts.Host(name) {
			s.refuse(w, http.StatusForbidden, fmt.Errorf("the page does not answer to the name %q: use the address that was printed", name))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// show answers a place: with its page, or with the address of another one.
func (s *server) show(w http.ResponseWriter, r *http.Request) {
	p, err := parse(r.URL.RawQuery)
	if err != nil {
		s.refuse(w, http.StatusBadRequest, err)
		return
	}
	to, err := s.moved(r.Context(), p)
	if err == nil && to != "" {
		w.Header().Set("Location", to) // relative, so that it holds wherever the page is mounted
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	var v view
	if err == nil {
		v, err = s.view(r.Context(), p)
	}
	switch {
	case errors.Is(err, errBusy):
		s.refuse(w, http.StatusServiceUnavailable, err)
	case r.Context().Err() != nil:
		s.refuse(w, http.StatusServiceUnavailable, context.Cause(r.Context())) // nobody is left, or the program ends
	case err != nil:
		s.refuse(w, http.StatusBadRequest, err)
	default:
		s.write(w, http.StatusOK, v)
	}
}

// refuse answers with a page that says what is wrong.
func (s *server) refuse(w http.ResponseWriter, status int, err error) {
	s.write(w, status, view{Title: http.StatusText(status), Problem: err.Error(), Home: "./"})
}

// write fills the page before the first byte goes out.
func (s *server) write(w http.ResponseWriter, status int, v view) {
	var b bytes.Buffer
	if err := s.page.Execute(&b, v); err != nil {
		http.Error(w, "the page could not be drawn: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // the browser may have gone
}
