package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const (
	mostAnswer  = 1 << 20 // bytes of an answer that are read
	problemType = "urn:briefrail:problem:"
)

// problem is an answer that is no success (RFC 9457).
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Detail   string   `json:"detail"`
	Epoch    int64    `json:"epoch"`
	Writer   string   `json:"writer"`
	Endpoint string   `json:"endpoint"`
	Receipt  *Receipt `json:"receipt"`
	Expected int64    `json:"expected_revision"`
	Revision int64    `json:"revision"`
	Recorded string   `json:"recorded_digest"`
	RetryMS  int64    `json:"retry_after_ms"`
}

func (p problem) receipt() Receipt {
	if p.Receipt == nil {
		return Receipt{}
	}
	return *p.Receipt
}

// reply is an answer as it was read: one of receipt and problem is filled in, or
// neither where somebody else has answered, like a proxy.
type reply struct {
	status  int
	body    []byte
	receipt Receipt
	problem problem
}

// is reports a problem of one type. The status alone says too little: 409 is three
// things, and 404 may be a proxy's.
func (a reply) is(status int, kind string) bool {
	return a.status == status && a.problem.Type == problemType+kind
}

// String is for an error's words.
func (a reply) String() string {
	if a.problem.Type != "" {
		return fmt.Sprintf("answered %d, %s", a.status, a.problem.Title)
	}
	return fmt.Sprintf("answered %d, which is no answer of the protocol", a.status)
}

// noToken is a request that was not made.
type noToken struct{ why error }

func (e *noToken) Error() string { return "client: no token for the endpoint: " + e.why.Error() }
func (e *noToken) Unwrap() error { return e.why }

func (c *Client) ask(ctx context.Context, endpoint, path string) (reply, error) {
	return c.do(ctx, http.MethodGet, endpoint, path, nil)
}

func (c *Client) post(ctx context.Context, d *Draft) (reply, error) {
	asked := struct {
		ID       string `json:"intent_id"`
		Kind     string `json:"kind"`
		Expected *int64 `json:"expected_revision,omitempty"`
		Digest   string `json:"payload_digest"`
		Epoch    int64  `json:"epoch,omitempty"`
	}{d.Intent.ID, d.Intent.Kind, d.Intent.Expected, d.Digest, d.Epoch}
	body, err := json.Marshal(asked)
	if err != nil {
		return reply{}, err
	}
	return c.do(ctx, http.MethodPost, d.Endpoint, "/v1/firms/"+d.Intent.Firm+"/matters/"+d.Intent.Matter+"/intents", body)
}

// do makes one request. The transport repeats none of its own: a POST without an
// idempotency header is never sent twice by it.
func (c *Client) do(ctx context.Context, method, endpoint, path string, body []byte) (a reply, err error) {
	token, err := c.opts.Token(endpoint)
	if err != nil {
		return a, &noToken{err}
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(endpoint, "/")+path, bytes.NewReader(body))
	if err != nil {
		return a, fmt.Errorf("client: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return a, fmt.Errorf("client: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if a.body, err = io.ReadAll(io.LimitReader(resp.Body, mostAnswer)); err != nil {
		return a, fmt.Errorf("client: the answer ended early: %w", err)
	}
	a.status = resp.StatusCode
	a.read(resp.Header.Get("Content-Type"))
	return a, nil
}

// read takes the body apart; what is not of the protocol stays as it is.
func (a *reply) read(kind string) {
	kind, _, _ = strings.Cut(kind, ";")
	switch {
	case kind == "application/problem+json" && a.status >= 400:
		if json.Unmarshal(a.body, &a.problem) != nil || !strings.HasPrefix(a.problem.Type, problemType) {
			a.problem = problem{}
		}
	case kind == "application/json" && a.status < 300:
		if json.Unmarshal(a.body, &a.receipt) != nil {
			a.receipt = Receipt{}
		}
	}
}

// Receipt asks one endpoint what became of an intent; found is false where it has never
// heard of it.
func (c *Client) Receipt(ctx context.Context, endpoint, intent string) (r Receipt, found bool, err error) {
	if !isUUID(intent) {
		return r, false, fmt.Errorf("client: %.40q is not a lower-case UUID", intent)
	}
	a, err := c.ask(ctx, endpoint, "/v1/intents/"+intent)
	switch {
	case err != nil:
		return r, false, err
	case a.status == 200 && a.receipt.IntentID == intent:
		return a.receipt, true, nil
	case a.is(404, "no-receipt"):
		return r, false, nil
	}
	return r, false, fmt.Errorf("client: asking for the receipt: %s", a)
}

// Authority asks one endpoint who decides for a matter.
func (c *Client) Authority(ctx context.Context, endpoint, firm, matter string) (w Authority, err error) {
	if !isUUID(firm) || !isUUID(matter) {
		return w, fmt.Errorf("client: %.40q and %.40q are not the lower-case UUIDs of a matter", firm, matter)
	}
	a, err := c.ask(ctx, endpoint, "/v1/firms/"+firm+"/matters/"+matter+"/authority")
	if err != nil {
		return w, err
	}
	if a.status != http.StatusOK || json.Unmarshal(a.body, &w) != nil || w.Epoch < 1 {
		return Authority{}, fmt.Errorf("client: asking for authority: %s", a)
	}
	return w, nil
}
