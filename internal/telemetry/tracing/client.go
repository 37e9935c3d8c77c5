package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

var (
	errTooMany  = errors.New("more spans end than the collector takes")
	errRejected = errors.New("the collector took a part of a batch only")
)

// client is an otlptrace.Client over HTTP: one request a batch, tried again while its
// time lasts and trying can help.
type client struct {
	o    Options
	http *http.Client
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

func newClient(o Options) (*client, error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: o.Timeout,
		ResponseHeaderTimeout: o.Timeout, ForceAttemptHTTP2: true,
	}
	if o.Certificate != "" {
		pool, err := certificates(o.Certificate)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &client{o: o, http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // headers with secrets go nowhere else
	}}}, nil
}

func certificates(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tracing.certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("tracing.certificate: the file holds no PEM certificate")
	}
	return pool, nil
}

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error { c.http.CloseIdleConnections(); return nil }

// UploadTraces implements otlptrace.Client. The message is that of an export
// request, which has this one field.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("a batch cannot be written: %w", err)
	}
	if c.o.Gzip {
		body = zipped(body)
	}
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		again, err := c.post(ctx, body)
		if err == nil || !again {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

func zipped(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// post makes one request; again tells whether another may help.
func (c *client) post(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.URL, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the collector's URL cannot be used")
	}
	if err := c.dress(req); err != nil {
		return false, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		var outer *url.Error // it quotes the URL, which may carry a key
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return true, fmt.Errorf("the collector cannot be reached: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch res.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		noteRejected(ctx, answer)
		return false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, fmt.Errorf("the collector answers %d", res.StatusCode)
}

func (c *client) dress(req *http.Request) error {
	req.Header.Set("Content-Type", "application/x-protobuf")
	if c.o.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if c.o.Headers == nil {
		return nil
	}
	headers, err := c.o.Headers()
	if err != nil {
		return errors.New("the headers for the collector cannot be read")
	}
	for _, h := range headers {
		req.Header.Set(h[0], h[1])
	}
	return nil
}

// rejectedKey is where a context keeps how many spans of a batch were refused: the
// exporter between queue and client hands on nothing but an error.
type rejectedKey struct{}

func withRejected(ctx context.Context, n *int) context.Context {
	return context.WithValue(ctx, rejectedKey{}, n)
}

func noteRejected(ctx context.Context, answer []byte) {
	if n, ok := ctx.Value(rejectedKey{}).(*int); ok {
		*n = rejectedIn(answer)
	}
}

// rejectedIn reads partial_success.rejected_spans, field 1 in field 1; 0 where there
// is none.
func rejectedIn(answer []byte) int {
	return int(min(number(field(answer)), 1<<30))
}

// field is the content of field 1 of a message.
func field(b []byte) []byte {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if num == 1 && typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b)
			return v
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return nil
		}
		b = b[n:]
	}
	return nil
}

// number is field 1 of a message as a count.
func number(b []byte) uint64 {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || num != 1 || typ != protowire.VarintType {
		return 0
	}
	v, n := protowire.ConsumeVarint(b[n:])
	if n < 0 {
		return 0
	}
	return v
}
