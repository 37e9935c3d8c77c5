package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/rail"
)

// HTTPOptions configure an HTTP builder.
type HTTPOptions struct {
	URL           string                 // http or https, without user, password or fragment
	Token         func() (string, error) // bearer token, asked for at every build; nil for none
	Timeout       time.Duration          // for the whole build
	HeaderTimeout time.Duration          // until the answer's header; 0, or more than Timeout, means Timeout
	IdleTimeout   time.Duration          // within which 512 more bytes of the answer must come; 0 means 30 s
	MaxFrameBytes int64
	Transport     http.RoundTripper     // nil: one of its own
	Registerer    prometheus.Registerer // nil: metrics are not exported
}

// HTTP calls a build service:
//
//	POST {"firm_id","matter_id","generation":N,"run_id","attempt":N,"retry_of":null|UUID,"deadline":RFC 3339}
//	200  {"firm_id","matter_id","generation":N,"schema_version","builder_version","frame":{...},
//	      "usage":{"model_calls":N,"tokens":N,"cost_usd":"0.00"}}
//
// both as application/json. The answer must echo firm, matter and generation;
// usage may be missing, or come with an error. Other members are ignored.
//
// What an answer means: 408, 425, 429, 5xx and transport errors are Transient; 401,
// 403, 404, redirects and HTML pages (but for the statuses before) Unavailable;
// other 4xx, an answer for this matter without a frame, and too large a one
// Permanent; an echo of another matter Mismatch. A success that is no answer at all
// (empty, 204, no JSON, no echo, an error inside a 200, cut in the middle) is
// Transient: a proxy's hiccup must not park every matter it meets, and a builder
// that always does so is paused by the runner after some matters in a row, while
// each of them is charged, so that none is tried for ever.
type HTTP struct {
	opts    HTTPOptions
	client  *http.Client
	metrics *buildMetrics
}

// NewHTTP checks the options. It does not call the service.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil, u.Fragment != "":
		return nil, errors.New("builder url: want http(s)://HOST/PATH without user, password or fragment")
	case o.Timeout <= 0 || o.MaxFrameBytes <= 0 || o.HeaderTimeout < 0 || o.IdleTimeout < 0:
		return nil, errors.New("builder: timeout and frame limit must be positive")
	}
	if o.HeaderTimeout == 0 || o.HeaderTimeout > o.Timeout {
		o.HeaderTimeout = o.Timeout
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 30 * time.Second
	}
	if o.Transport == nil {
		o.Transport = newTransport()
	}
	metrics, err := newBuildMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport:     o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &HTTP{opts: o, client: client, metrics: metrics}, nil
}

// newTransport has keep-alive probes, so that a connection whose other end is gone
// is noticed long before the builder timeout.
func newTransport() *http.Transport {
	dialer := &net.Dialer{
		Timeout:         10 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3},
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: envelopeBytes,
	}
}

// Build implements Builder. The frame is a part of the answer's buffer.
func (b *HTTP) Build(ctx context.Context, r Request) (Frame, Usage, error) {
	start := time.Now()
	w := newWatch(ctx, b.opts.Timeout)
	defer w.stop()
	c := call{HTTP: b, watch: w, r: r}
	frame, usage, err := c.do()
	return frame, usage, b.metrics.done(start, c.size, err)
}

// call is one request and its answer.
type call struct {
	*HTTP
	*watch
	r      Request
	secret string // the token, to be blanked in previews
	size   int    // bytes of the answer
}

func (c *call) do() (Frame, Usage, *BuildError) {
	req, bad := c.request()
	if bad != nil {
		return Frame{}, Usage{}, bad
	}
	c.within(c.opts.HeaderTimeout, errHeader)
	res, err := c.client.Do(req)
	if err != nil {
		return Frame{}, Usage{}, c.broken(err)
	}
	// Closing a body that is not read to its end closes the connection as well.
	defer func() { _ = res.Body.Close() }()
	c.within(c.opts.IdleTimeout, errIdle)
	if res.StatusCode != http.StatusOK {
		return c.fault(res)
	}
	return c.success(res)
}

type requestBody struct {
	rail.Key
	Generation int64      `json:"generation"`
	Run        rail.UUID  `json:"run_id"`
	Attempt    int        `json:"attempt"`
	RetryOf    *rail.UUID `json:"retry_of"`
	Deadline   time.Time  `json:"deadline"`
}

// requestJSON returns the request in the words of the protocol.
func requestJSON(r Request) ([]byte, error) {
	body := requestBody{
		Key: r.Key, Generation: r.Token.Generation, Run: r.Token.Run,
		Attempt: r.Attempt, Deadline: r.Deadline.UTC(),
	}
	if !r.RetryOf.IsZero() {
		body.RetryOf = &r.RetryOf
	}
	return json.Marshal(body)
}

func (c *call) request() (*http.Request, *BuildError) {
	body, err := requestJSON(c.r)
	if err != nil {
		return nil, failed(Permanent, KindBadAnswer, "the request cannot be written", err)
	}
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, c.opts.URL, bytes.NewReader(body))
	if err != nil {
		return nil, failed(Unavailable, KindTransport, "the builder url cannot be used", err)
	}
	// With this header net/http itself repeats a request that a stale kept
	// connection has lost.
	req.Header.Set("Idempotency-Key", c.r.Token.Run.String())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if headerSafe(c.r.TraceParent) {
		req.Header.Set("Traceparent", c.r.TraceParent)
		if headerSafe(c.r.TraceState) {
			req.Header.Set("Tracestate", c.r.TraceState)
		}
	}
	if c.opts.Token == nil {
		return req, nil
	}
	token, err := c.opts.Token()
	if token = strings.TrimSpace(token); err != nil || !headerSafe(token) {
		return nil, failed(Unavailable, KindAuth, "the builder token cannot be read, or is no token", err)
	}
	c.secret = token
	req.Header.Set("Authorization", "Bearer "+token)
	return req, nil
}

// headerSafe reports whether s is a non-empty header value of printable ASCII.
func headerSafe(s string) bool {
	return s != "" && len(s) <= 8<<10 && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// broken tells what a failed exchange means: our own deadline, or the transport.
func (c *call) broken(err error) *BuildError {
	if ended := c.ended(); ended != nil {
		return ended
	}
	var outer *url.Error // it quotes the URL, which may carry a key
	if errors.As(err, &outer) {
		err = outer.Err
	}
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return failed(Transient, KindTimeout, "no connection within its timeout", err)
	}
	return failed(Transient, KindTransport, transportText(err), err)
}

// transportText describes a transport error without quoting what the peer sent.
func transportText(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "the builder's host name is not found"
	case errors.As(err, &op):
		return op.Op + ": " + op.Err.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the answer was cut in the middle"
	case errors.Is(err, io.EOF):
		return "the connection was closed before the answer"
	}
	return "the exchange with the builder failed"
}
