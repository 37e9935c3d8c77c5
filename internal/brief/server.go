package brief

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// ServerOptions are what a Server needs.
type ServerOptions struct {
	Pool *pgxpool.Pool
	Log  *slog.Logger
	// Delay makes every build take that much longer, as a panel of models would.
	// It is spent after the record was read.
	Delay time.Duration
	// Patience is how long a build waits for a database that is away; zero: not at all.
	Patience time.Duration
}

// Server answers the rail's build requests.
type Server struct {
	o       ServerOptions
	flights *flights
	slots   chan struct{} // builds that hold a record in memory at one time
}

// buildsAtOnce bounds memory: a record may be as large as MaxRecordBytes.
const buildsAtOnce = 4

// NewServer makes a Server; it starts nothing.
func NewServer(o ServerOptions) *Server {
	return &Server{o: o, flights: newFlights(), slots: make(chan struct{}, buildsAtOnce)}
}

// Handler serves POST /v1/build, GET /livez and GET /readyz.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/build", s.build)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	return mux
}

// response is the body of a good answer. Usage is all zero: no model is called.
type response struct {
	rail.Key
	Generation     int64  `json:"generation"`
	SchemaVersion  string `json:"schema_version"`
	BuilderVersion string `json:"builder_version"`
	Frame          Frame  `json:"frame"`
	Usage          usage  `json:"usage"`
}

type usage struct {
	ModelCalls int    `json:"model_calls"`
	Tokens     int    `json:"tokens"`
	CostUSD    string `json:"cost_usd"` // decimal, exact
}

func (s *Server) build(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	req, err := readRequest(w, r)
	if err != nil {
		s.fail(r.Context(), w, req, err)
		return
	}
	answer, err := s.flights.do(r.Context(), req, func(ctx context.Context) ([]byte, error) { return s.answer(ctx, req) })
	if err != nil {
		s.fail(r.Context(), w, req, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(answer); err != nil {
		s.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "answer not sent", append(ids(req), slog.Any("err", err))...)
		return
	}
	s.o.Log.LogAttrs(r.Context(), slog.LevelInfo, "brief built",
		append(ids(req), slog.Int("bytes", len(answer)), slog.Duration("duration", time.Since(started)))...)
}

func ids(req Request) []slog.Attr {
	return []slog.Attr{
		slog.String("firm_id", req.Key.Firm.String()), slog.String("matter_id", req.Key.Matter.String()),
		slog.Int64("generation", req.Generation), slog.String("run_id", req.Run.String()), slog.Int64("attempt", req.Attempt),
	}
}

// answer builds one Brief. A panic is an error of this one matter.
func (s *Server) answer(ctx context.Context, req Request) (body []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.LogAttrs(ctx, slog.LevelError, "build panicked",
				append(ids(req), slog.String("err", pg.Text(fmt.Errorf("panic: %v", p), 200)), slog.String("stack", string(debug.Stack())))...)
			body, err = nil, fmt.Errorf("build %s: internal error", req.Key)
		}
	}()
	if body, err = s.work(ctx, req); err != nil {
		return nil, err
	}
	return body, s.wait(ctx)
}

func (s *Server) work(ctx context.Context, req Request) ([]byte, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	frame, err := outlast(ctx, s.o.Patience, func() (Frame, error) { return Build(ctx, s.o.Pool, req.Key) })
	if err != nil {
		return nil, err
	}
	return json.Marshal(response{
		Key: req.Key, Generation: req.Generation, SchemaVersion: SchemaVersion, BuilderVersion: BuilderVersion,
		Frame: frame, Usage: usage{CostUSD: "0.00"},
	})
}

// askAgain is how often a database that is away is asked.
const askAgain = 250 * time.Millisecond

// outlast has something done again for as long as the database is away and patience
// lasts: a restart of it costs a build some seconds, where an error costs it an attempt.
func outlast(ctx context.Context, patience time.Duration, do func() (Frame, error)) (Frame, error) {
	for until := time.Now().Add(patience); ; {
		frame, err := do()
		if err == nil || !pg.IsTransient(err) || !time.Now().Before(until) {
			return frame, err
		}
		t := time.NewTimer(askAgain)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return frame, err
		}
	}
}

// wait spends the artificial delay, or less when nobody waits any more.
func (s *Server) wait(ctx context.Context) error {
	if s.o.Delay <= 0 {
		return nil
	}
	t := time.NewTimer(s.o.Delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// failure is the body of every other answer.
type failure struct {
	Error struct {
		Code    string `json:"code"`
		Field   string `json:"field,omitempty"`
		Message string `json:"message"`
	} `json:"error"`
}

func (s *Server) fail(ctx context.Context, w http.ResponseWriter, req Request, err error) {
	status, code, field := classify(err)
	var f failure
	f.Error.Code, f.Error.Field, f.Error.Message = code, field, pg.Text(err, 500)
	s.o.Log.LogAttrs(ctx, slog.LevelWarn, "build refused",
		append(ids(req), slog.Int("status", status), slog.String("err", f.Error.Message))...)
	body, jsonErr := json.Marshal(f)
	if jsonErr != nil {
		body = []byte(`{"error":{"code":"internal"}}`)
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "2")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // nobody is left to tell when this fails
}

// classify maps an error to the classes that the rail acts on: 4xx will fail
// again for this matter, 503 will pass.
func classify(err error) (status int, code, field string) {
	var bad *badRequest
	switch {
	case errors.As(err, &bad):
		return bad.status, "bad_request", bad.field
	case errors.Is(err, errOtherRequest):
		return http.StatusConflict, "run_id_reused", "run_id"
	case errors.Is(err, ErrRecordTooLarge):
		return http.StatusRequestEntityTooLarge, "record_too_large", ""
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "cancelled", ""
	case pg.IsTransient(err), pg.SQLState(err) == undefinedTable:
		// Without its tables the service is not set up yet; the matter is well.
		return http.StatusServiceUnavailable, "database_unavailable", ""
	}
	return http.StatusInternalServerError, "internal", ""
}

const undefinedTable = "42P01"

// readyTimeout is shorter than any prober's patience.
const readyTimeout = 2 * time.Second

// ready is green while the database answers with the schema of this build.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := CheckSchema(ctx, s.o.Pool); err != nil {
		writeText(w, http.StatusServiceUnavailable, "database: "+pg.Text(err, 200)+"\n")
		return
	}
	writeText(w, http.StatusOK, "ok\n")
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // a prober that went away needs no answer
}
