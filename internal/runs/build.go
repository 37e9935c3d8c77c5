package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/rail"
)

// Request is one attempt to build the Brief of a matter.
type Request struct {
	Key         rail.Key
	Token       rail.Token // generation and run of the claim
	Attempt     int        // counted from 1 since the last landing
	RetryOf     rail.UUID  // run of the attempt before, zero when there was none
	Deadline    time.Time  // when the build is ended, for the builder's own planning
	TraceParent string     // W3C trace context, either may be empty
	TraceState  string
}

// Frame is what a builder built.
type Frame struct {
	JSON                          []byte // one object, as the builder wrote it: not checked yet
	SchemaVersion, BuilderVersion string
}

// Usage is what the build cost, as the builder says; zero values mean unknown.
type Usage struct {
	ModelCalls, Tokens int64
	CostUSD            string // decimal, for example "0.42"; "" unknown
}

// Builder makes the frame of a matter. The error is a *BuildError; Usage counts
// whatever the error. Build returns soon after ctx ends.
type Builder interface {
	Build(ctx context.Context, r Request) (Frame, Usage, error)
}

// BuildClass says what a failed build means for the matter.
type BuildClass int

// The classes of a BuildError.
const (
	Transient   BuildClass = iota // try again later; costs an attempt
	Permanent                     // the matter cannot be built as it is
	Unavailable                   // the builder is misconfigured or down, not the matter
	Mismatch                      // an answer for another matter: permanent, and paged
)

// String returns the class in lower case.
func (c BuildClass) String() string {
	names := [...]string{"transient", "permanent", "unavailable", "mismatch"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("class(%d)", int(c))
	}
	return names[c]
}

// Kinds of a BuildError: a closed set, fit for a label. BuildKinds lists them.
const (
	KindHTTP4xx      = "http_4xx"
	KindHTTP5xx      = "http_5xx"
	KindRateLimited  = "rate_limited"  // 429
	KindAuth         = "auth"          // 401, 403, or no usable token of our own
	KindNotFound     = "not_found"     // 404
	KindRedirect     = "redirect"      // any 3xx: redirects are not followed
	KindHTML         = "html"          // a page for people: a proxy or a login
	KindTimeout      = "timeout"       // total, header or idle deadline
	KindTransport    = "transport"     // no connection, or one that broke
	KindEmpty        = "empty"         // success without a body
	KindNotJSON      = "not_json"      // wrong content type, or no JSON
	KindErrorBody    = "error_body"    // 200 with an error inside
	KindBadAnswer    = "bad_answer"    // JSON, but not the answer that was asked for
	KindMismatch     = "mismatch"      // the answer echoes another matter or generation
	KindTooLarge     = "too_large"     // beyond the frame limit
	KindInvalidFrame = "invalid_frame" // the frame does not pass frames.Check (told by the runner)
	KindExecStart    = "exec_start"    // the command cannot be started
	KindExecExit     = "exec_exit"     // the command's exit status
	KindExecKilled   = "exec_killed"   // ended by a signal that is not ours
	KindCanceled     = "canceled"      // we ended the build: fence, or shutdown
	KindPanic        = "panic"         // the builder's own code panicked (told by the runner)
)

// BuildKinds returns every Kind, to start metrics at 0.
func BuildKinds() []string {
	return []string{
		KindHTTP4xx, KindHTTP5xx, KindRateLimited, KindAuth, KindNotFound, KindRedirect, KindHTML,
		KindTimeout, KindTransport, KindEmpty, KindNotJSON, KindErrorBody, KindBadAnswer, KindMismatch,
		KindTooLarge, KindInvalidFrame, KindExecStart, KindExecExit, KindExecKilled, KindCanceled, KindPanic,
	}
}

// BuildError says why a build failed.
type BuildError struct {
	Class       BuildClass
	Kind        string        // one of the Kind constants
	Text        string        // short; no text of documents, no secrets; valid UTF-8 without control characters
	RetryAfter  time.Duration // as the builder asked, capped at MaxRetryAfter; 0 when it did not
	Preview     []byte        // at most PreviewBytes of what the builder said, the token blanked: for the run row only
	PreviewHash string        // SHA-256 in hexadecimal of all that was received of it; "" when nothing was
	Err         error         // the cause, may be nil: not for logs, it can quote the builder
}

// PreviewBytes is the most that is kept of a refused answer.
const PreviewBytes = 512

// MaxRetryAfter caps what a builder can ask for: a wrong clock must not stop a
// matter for a day.
const MaxRetryAfter = 10 * time.Minute

// Error returns kind and text.
func (e *BuildError) Error() string { return "build: " + e.Kind + ": " + e.Text }

// Unwrap returns the cause.
func (e *BuildError) Unwrap() error { return e.Err }

func failed(class BuildClass, kind, text string, cause error) *BuildError {
	return &BuildError{Class: class, Kind: kind, Text: tidy(text), Err: cause}
}

// saying adds the preview of what the builder said.
func (e *BuildError) saying(said []byte, secret string) *BuildError {
	if len(said) == 0 {
		return e
	}
	sum := sha256.Sum256(said)
	e.PreviewHash = hex.EncodeToString(sum[:])
	// Blank first and cut then: a secret across the cut would leave its half.
	head := said[:min(len(said), PreviewBytes+len(secret))]
	if secret != "" {
		head = bytes.ReplaceAll(head, []byte(secret), []byte("[redacted]"))
	}
	e.Preview = bytes.Clone(head[:min(len(head), PreviewBytes)])
	return e
}

// tidy makes text fit for a text column and one line of a log.
func tidy(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	const most = 200
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}

// Causes by which a watch ends a build.
var (
	errTotal    = errors.New("no frame within the builder timeout")
	errHeader   = errors.New("no answer within the header timeout")
	errIdle     = errors.New("the answer stopped, or came in drips")
	errTooLarge = errors.New("more bytes than the frame limit allows")
)

// minProgress is how many bytes must come within every idle timeout, so that an
// answer of one byte at a time ends too.
const minProgress = 512

// watch ends one build at its deadlines.
type watch struct {
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	end    context.CancelFunc
	timer  *time.Timer
	idle   time.Duration
	got    int
}

func newWatch(parent context.Context, total time.Duration) *watch {
	w := &watch{parent: parent}
	limited, end := context.WithTimeoutCause(parent, total, errTotal)
	w.end = end
	w.ctx, w.cancel = context.WithCancelCause(limited)
	return w
}

func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cancel(nil)
	w.end()
}

// within ends the build with cause unless the next call comes within d.
func (w *watch) within(d time.Duration, cause error) {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.idle = d
	w.timer = time.AfterFunc(d, func() { w.cancel(cause) })
}

// progress counts n bytes received.
func (w *watch) progress(n int) {
	if w.got += n; w.got >= minProgress && w.timer != nil {
		w.got = 0
		w.timer.Reset(w.idle)
	}
}

// ended returns why the build was ended from our side, or nil when it was not.
func (w *watch) ended() *BuildError {
	cause := context.Cause(w.ctx)
	switch {
	case cause == nil:
		return nil
	case errors.Is(cause, errTotal), errors.Is(cause, errHeader), errors.Is(cause, errIdle):
		return failed(Transient, KindTimeout, cause.Error(), cause)
	case errors.Is(cause, errTooLarge):
		return failed(Permanent, KindTooLarge, cause.Error(), cause)
	case errors.Is(w.parent.Err(), context.DeadlineExceeded):
		return failed(Transient, KindTimeout, "no frame before the build's deadline", cause)
	}
	return failed(Transient, KindCanceled, "the build was ended from our side", cause)
}

// readAll reads src to its end, at most limit bytes, into one buffer. hint is the
// announced length, or negative. Unannounced bytes gather in chunks, so that at no
// time more than twice the bytes read are held (and a chunk). With an error it
// returns what came first.
func readAll(src io.Reader, hint, limit int64, progress func(int)) ([]byte, error) {
	const first, last = 32 << 10, 1 << 20
	size := int64(first)
	if hint >= 0 && hint <= limit {
		size = hint + 1 // the extra byte lets the last read see the end
	}
	var chunks [][]byte
	var total int64
	for {
		chunk := make([]byte, 0, size)
		for len(chunk) < cap(chunk) {
			n, err := src.Read(chunk[len(chunk):cap(chunk)])
			chunk = chunk[:len(chunk)+n]
			total += int64(n)
			progress(n)
			switch {
			case total > limit:
				return joined(chunks, chunk), errTooLarge
			case errors.Is(err, io.EOF):
				return joined(chunks, chunk), nil
			case err != nil:
				return joined(chunks, chunk), err
			}
		}
		chunks = append(chunks, chunk)
		size = min(max(size*2, first), last)
	}
}

func joined(chunks [][]byte, end []byte) []byte {
	if len(chunks) == 0 {
		return end
	}
	return bytes.Join(append(chunks, end), nil)
}

// buildMetrics counts what the builder answered.
type buildMetrics struct {
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram
	bytes    prometheus.Histogram
}

// metricClass maps the kind to the label class; a kind without one is "other".
func metricClass(err *BuildError) string {
	if err == nil {
		return "ok"
	}
	switch err.Kind {
	case KindHTTP4xx, KindRateLimited, KindAuth, KindNotFound:
		return "http_4xx"
	case KindHTML, KindEmpty, KindNotJSON:
		return "not_json"
	case KindHTTP5xx, KindTimeout, KindMismatch, KindTooLarge:
		return err.Kind
	}
	return "other"
}

// newBuildMetrics registers the metrics, or takes over those that another builder
// of this process has registered; reg may be nil.
func newBuildMetrics(reg prometheus.Registerer) (*buildMetrics, error) {
	m := &buildMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rail_builder_requests_total", Help: "Calls of the builder by what came of them.",
		}, []string{"class"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rail_builder_request_duration_seconds", Help: "Time from a call of the builder to its frame or error.",
			Buckets: []float64{.1, .5, 1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600},
		}),
		bytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rail_builder_response_bytes", Help: "Bytes that the builder answered with.",
			Buckets: prometheus.ExponentialBuckets(1024, 4, 9),
		}),
	}
	if err := errors.Join(register(reg, &m.requests), register(reg, &m.seconds), register(reg, &m.bytes)); err != nil {
		return nil, fmt.Errorf("register the builder's metrics: %w", err)
	}
	for _, class := range []string{"ok", "http_4xx", "http_5xx", "timeout", "not_json", "mismatch", "too_large", "other"} {
		m.requests.WithLabelValues(class)
	}
	return m, nil
}

func register[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	if reg == nil {
		return nil
	}
	err := reg.Register(*c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if old, ok := already.ExistingCollector.(C); ok {
			*c = old
			return nil
		}
	}
	return err
}

// done counts one call. It returns err as an error: a nil *BuildError is no error.
func (m *buildMetrics) done(start time.Time, size int, err *BuildError) error {
	m.requests.WithLabelValues(metricClass(err)).Inc()
	m.seconds.Observe(time.Since(start).Seconds())
	m.bytes.Observe(float64(size))
	if err == nil {
		return nil
	}
	return err
}
