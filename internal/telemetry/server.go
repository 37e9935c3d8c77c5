package telemetry

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"briefrail/internal/web"
)

// Defaults and limits of the admin listener.
const (
	defaultCacheFor = 2 * time.Second
	checkLimit      = 3 * time.Second
	stopLimit       = 3 * time.Second
	scrapeLimit     = 30 * time.Second
	scrapesAtOnce   = 4
)

// ServerOptions describe the admin listener. Registry is needed; Loops may be nil.
type ServerOptions struct {
	Listen   string // host:port; "" for no listener: Run only waits
	Registry *prometheus.Registry
	Loops    *Loops
	Ready    []Check
	CacheFor time.Duration // how long an answer of a Check is good; 0: 2s
	// Username turns on basic auth for /metrics. Password is asked at each
	// request, so that it can be rotated.
	Username string
	Password func() (string, error)
	Logger   *slog.Logger
}

// Server serves /metrics, /livez, /readyz and /startupz. Probes are not logged
// and need no password: the platform's probes carry none.
type Server struct {
	opts      ServerOptions
	listener  net.Listener
	checks    []*cachedCheck
	collected prometheus.Counter
	started   atomic.Bool
	draining  atomic.Bool
}

// Listen binds the address and registers rail_collector_errors_total; Run serves.
func Listen(ctx context.Context, opts ServerOptions) (*Server, error) {
	if opts.Registry == nil {
		return nil, errors.New("admin listener needs a registry")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.CacheFor == 0 {
		opts.CacheFor = defaultCacheFor
	}
	s := &Server{opts: opts}
	for _, c := range opts.Ready {
		s.checks = append(s.checks, &cachedCheck{Check: c, ttl: opts.CacheFor, limit: checkLimit})
	}
	if opts.Listen != "" {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Listen)
		if err != nil {
			return nil, fmt.Errorf("admin listener: %w", err)
		}
		s.listener = l
	}
	s.collected = promauto.With(opts.Registry).NewCounter(prometheus.CounterOpts{
		Name: "rail_collector_errors_total", Help: "Collectors that failed at scrape time; their gauges were left out.",
	})
	return s, nil
}

// Addr returns the bound address, or "" without a listener.
func (s *Server) Addr() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Started makes /startupz answer yes: the program is assembled and its loops run.
// It does not mean that the database answers.
func (s *Server) Started() { s.started.Store(true) }

// Drain makes /readyz answer no from now on: the program is stopping.
func (s *Server) Drain() { s.draining.Store(true) }

// Run serves until ctx ends, then lets requests in flight finish for a moment.
func (s *Server) Run(ctx context.Context) error {
	if s.listener == nil {
		<-ctx.Done()
		return nil
	}
	srv := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: scrapeLimit + 5*time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
	}
	if err := web.Serve(ctx, srv, s.listener, stopLimit); err != nil {
		return fmt.Errorf("admin listener %s: %w", s.Addr(), err)
	}
	return nil
}

// Handler returns the routes, for a test or for a listener of the caller's own.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.guard(s.metrics()))
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /startupz", s.startupz)
	return mux
}

// metrics answers with whatever could be collected: one failing query must not
// hide the metrics that say why.
func (s *Server) metrics() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(s.gather), promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapesAtOnce,
		Timeout: scrapeLimit, EnableOpenMetrics: true,
	})
}

// guard asks for the password, where there is one.
func (s *Server) guard(next http.Handler) http.Handler {
	if s.opts.Username == "" || s.opts.Password == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want, err := s.opts.Password()
		if err != nil || want == "" {
			s.opts.Logger.WarnContext(r.Context(), "password of the admin listener cannot be read", Err(err))
			http.Error(w, "password cannot be read", http.StatusServiceUnavailable)
			return
		}
		user, given, _ := r.BasicAuth()
		if !same(user, s.opts.Username) || !same(given, want) {
			w.Header().Set("WWW-Authenticate", `Basic realm="admin"`)
			http.Error(w, "user or password is wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// same compares without telling by its time how much was right.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
