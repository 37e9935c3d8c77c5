package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/pg"
	"briefrail/internal/web"
)

// Limits of the listener.
const (
	mostBody  = 16 << 10         // bytes of a request; an intent is some 300
	askLimit  = 10 * time.Second // for all that one request asks of the database
	slotLimit = 2 * time.Second  // how long a request waits for its turn
	stopLimit = 5 * time.Second
)

// Options of the interface. DB, Tokens and Registerer are needed.
type Options struct {
	DB     pg.DB
	Listen string // host:port; "" for no listener: Run only waits
	// Tokens is the text of the file of tokens, asked at each request so that it can
	// be changed under a running process. Nil lets nobody in.
	Tokens func() (string, error)
	// Certificate is a PEM chain and its key, asked at each handshake; nil: plain HTTP.
	Certificate func() (chain, key string, err error)
	// AtOnce is how many requests use the database at the same time: the rest of its
	// sessions are the work's. Zero means 2.
	AtOnce int
	// Wake is called when an intent was accepted, so that its build need not wait for the
	// next look at the ledger; nil: it waits.
	Wake       func()
	Registerer prometheus.Registerer
	Log        *slog.Logger // nil: nobody
}

// Server is the interface. Handler works at once; Run listens.
type Server struct {
	opts    Options
	tokens  tokens
	slots   chan struct{}
	notes   notes
	metrics metrics
	log     *slog.Logger
}

// New refuses tokens that cannot be read or understood: an interface that lets nobody
// in would be found out by its users.
func New(o Options) (*Server, error) {
	if o.AtOnce <= 0 {
		o.AtOnce = 2
	}
	if o.Wake == nil {
		o.Wake = func() {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o, slots: make(chan struct{}, o.AtOnce), log: o.Log, tokens: tokens{read: o.Tokens}}
	if o.Tokens != nil {
		if _, err := s.tokens.now(); err != nil {
			return nil, err
		}
	}
	if o.Certificate != nil {
		if _, err := s.certificate(nil); err != nil {
			return nil, err
		}
	}
	s.metrics = newMetrics(o.Registerer)
	return s, nil
}

// Run listens until ctx ends, then lets requests in flight finish for a moment. Whoever
// is cut off then asks for the receipt, which is in the database.
func (s *Server) Run(ctx context.Context) error {
	if s.opts.Listen == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.opts.Listen)
	if err != nil {
		return fmt.Errorf("listener of intents: %w", err)
	}
	return s.Serve(ctx, l)
}

// Serve is Run on a listener that is bound already.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 3 * askLimit, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if s.opts.Certificate != nil {
		l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: s.certificate})
	}
	s.announce(ctx, l.Addr())
	if err := web.Serve(ctx, srv, l, stopLimit); err != nil {
		return fmt.Errorf("listener of intents %s: %w", l.Addr(), err)
	}
	return ctx.Err()
}

// announce warns of tokens that would cross a network in the clear: TLS may well be a
// proxy's or a mesh's work, which cannot be seen from here.
func (s *Server) announce(ctx context.Context, a net.Addr) {
	at := []any{slog.String("listen", a.String()), slog.Bool("tls", s.opts.Certificate != nil)}
	s.log.InfoContext(ctx, "listening for intents", at...)
	if tcp, ok := a.(*net.TCPAddr); ok && s.opts.Certificate == nil && !tcp.IP.IsLoopback() {
		s.log.WarnContext(ctx, "tokens arrive in the clear unless a proxy in front of this listener does TLS", at...)
	}
}

// certificate is read again at each handshake, so that a renewed one counts at once.
func (s *Server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	chain, key, err := s.opts.Certificate()
	if err != nil {
		return nil, err
	}
	c, err := tls.X509KeyPair([]byte(chain), []byte(key))
	if err != nil {
		return nil, errors.New("certificate of the listener of intents: chain and key cannot be read, or do not belong together")
	}
	return &c, nil
}

// Handler serves the protocol below "/".
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	const of = "/firms/{firm}/matters/{matter}/"
	mux.HandleFunc("POST /v1"+of+"intents", s.answering(s.submit))
	mux.HandleFunc("/v1"+of+"intents", s.answering(only(http.MethodPost)))
	// where an old writer's address has been pointed at the rail: it says who was meant
	mux.HandleFunc("POST /v1/writers/{writer}"+of+"intents", s.answering(s.submit))
	mux.HandleFunc("/v1/writers/{writer}"+of+"intents", s.answering(only(http.MethodPost)))
	mux.HandleFunc("GET /v1"+of+"authority", s.answering(s.place))
	mux.HandleFunc("/v1"+of+"authority", s.answering(only("GET, HEAD")))
	mux.HandleFunc("GET /v1/intents/{id}", s.answering(s.find))
	mux.HandleFunc("/v1/intents/{id}", s.answering(only("GET, HEAD")))
	mux.HandleFunc("/", s.answering(nowhere))
	return mux
}

// turn waits for one of the places at the database, no longer than the caller does;
// give ends it. false: too busy. What is asked under ctx then is not ended by a caller
// who goes: it would cost the session, and the outcome is in a receipt either way.
func (s *Server) turn(r *http.Request) (ctx context.Context, give func(), ok bool) {
	wait, enough := context.WithTimeout(r.Context(), slotLimit)
	defer enough()
	select {
	case s.slots <- struct{}{}:
	case <-wait.Done():
		return nil, nil, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), askLimit)
	return ctx, func() { cancel(); <-s.slots }, true
}
