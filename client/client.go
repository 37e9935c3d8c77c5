package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// Options of a client. Endpoints, Token and Drafts are needed.
type Options struct {
	// Endpoints are the base addresses that are known, like https://rail.example: a
	// new draft goes to the first, and the others are asked where authority is while
	// that one does not answer.
	Endpoints []string
	// Token is the bearer token for an endpoint. Authority may move to one that the
	// client has never heard of: an error keeps it from being followed there, and the
	// token from a stranger.
	Token  func(endpoint string) (string, error)
	Drafts Drafts
	HTTP   *http.Client // nil: one with a timeout of 15 s
	// Attempts is how often an intent is tried in one call of Send; 0: 8.
	Attempts int
	// Backoff is the first wait after a failure; it doubles up to Longest, and each
	// wait is a random part of it. 0: 100 ms, and 5 s.
	Backoff, Longest time.Duration
}

// Client sends intents. It may be used by several goroutines.
type Client struct {
	opts Options
	http http.Client
}

// New makes a client.
func New(o Options) (*Client, error) {
	if len(o.Endpoints) == 0 || o.Token == nil || o.Drafts == nil {
		return nil, errors.New("client: Endpoints, Token and Drafts are needed")
	}
	for _, e := range o.Endpoints {
		if err := checkEndpoint(e); err != nil {
			return nil, err
		}
	}
	c := &Client{opts: o, http: http.Client{Timeout: 15 * time.Second}}
	if o.HTTP != nil {
		c.http = *o.HTTP
	}
	// an answer that leads elsewhere is read and followed by its meaning, never blindly
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if c.opts.Attempts <= 0 {
		c.opts.Attempts = 8
	}
	if c.opts.Backoff <= 0 {
		c.opts.Backoff = 100 * time.Millisecond
	}
	if c.opts.Longest <= 0 {
		c.opts.Longest = 5 * time.Second
	}
	return c, nil
}

func checkEndpoint(e string) error {
	u, err := url.Parse(e)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("client: an endpoint is not of the form https://host or https://host/path")
	}
	return nil
}

// Send keeps the intent as a draft and carries it to whoever has authority. It returns
// the receipt of an accepted intent, also where it had been accepted before. With any
// error the draft stays, and Send or Resume goes on from where it was.
func (c *Client) Send(ctx context.Context, i Intent) (Receipt, error) {
	if err := i.check(); err != nil {
		return Receipt{}, err
	}
	d, err := c.opts.Drafts.Get(ctx, i.Matter, i.ID)
	switch {
	case errors.Is(err, ErrNoDraft):
		d = Draft{Intent: i, Digest: i.Digest(), Endpoint: c.opts.Endpoints[0]}
		err = c.opts.Drafts.Put(ctx, d)
	case err == nil && !d.Intent.same(i):
		err = ErrOtherDraft
	}
	if err != nil {
		return Receipt{}, err
	}
	return c.carry(ctx, d)
}

// Resume is Send of a draft that is kept already, as after a restart.
func (c *Client) Resume(ctx context.Context, matter, intent string) (Receipt, error) {
	d, err := c.opts.Drafts.Get(ctx, matter, intent)
	if err != nil {
		return Receipt{}, err
	}
	return c.carry(ctx, d)
}

// Drafts lists what is kept, decided or not.
func (c *Client) Drafts(ctx context.Context) ([]Draft, error) { return c.opts.Drafts.All(ctx) }

// Forget drops a draft. One whose outcome is not known should be kept.
func (c *Client) Forget(ctx context.Context, matter, intent string) error {
	return c.opts.Drafts.Delete(ctx, matter, intent)
}

// carry takes turns until the intent is decided, or it is clear that it will not be
// here, or the attempts are used up; then the last turn's error says where it stands.
func (c *Client) carry(ctx context.Context, d Draft) (Receipt, error) {
	if d.Receipt != nil && d.Receipt.Outcome == "accepted" {
		return *d.Receipt, nil
	}
	wait := c.opts.Backoff
	for n := 1; ; n++ {
		o := c.turn(ctx, &d)
		switch {
		case o.final && o.err == nil:
			d.Receipt = &o.receipt
			return o.receipt, c.opts.Drafts.Put(ctx, d)
		case o.final, n >= c.opts.Attempts:
			return Receipt{}, o.err
		case n > 1 && o.after < 0 && isLost(o.err): // it may be gone for good
			if err := c.elsewhere(ctx, &d); err != nil {
				return Receipt{}, err
			}
		}
		if o.after < 0 {
			o.after, wait = rand.N(wait)+1, min(2*wait, c.opts.Longest)
		} else if o.after > 0 {
			o.after += rand.N(o.after/2 + 1) // not all that were told to wait come at once
		}
		if err := pause(ctx, min(o.after, max(c.opts.Longest, wait))); err != nil {
			return Receipt{}, errors.Join(err, o.err)
		}
	}
}

func isLost(err error) bool {
	var lost *Lost
	return errors.As(err, &lost)
}

// pause waits, or not for long where the context ends.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
