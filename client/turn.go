package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// outcome is where one turn led.
type outcome struct {
	final   bool // no further turn: receipt, or err
	receipt Receipt
	err     error
	after   time.Duration // wait before the next turn; negative: as after a failure
}

func done(r Receipt) outcome                       { return outcome{final: true, receipt: r} }
func stop(err error) outcome                       { return outcome{final: true, err: err} }
func again(err error, after time.Duration) outcome { return outcome{err: err, after: after} }
func lost(format string, args ...any) outcome      { return again(&Lost{fmt.Errorf(format, args...)}, -1) }

func (r Receipt) of(d *Draft) bool { return r.PayloadDigest == d.Digest && r.Matter == d.Intent.Matter }

func differs(d *Draft, recorded string) outcome {
	return stop(&Differs{Given: d.Digest, Recorded: recorded})
}

func (p problem) authority() Authority {
	return Authority{Epoch: p.Epoch, Writer: p.Writer, Endpoint: p.Endpoint}
}

func (p problem) after() time.Duration { return time.Duration(max(p.RetryMS, 10)) * time.Millisecond }

func (p problem) rejected(status int) outcome {
	return stop(&Rejected{Status: status, Type: p.Type, Detail: p.Title + ": " + p.Detail})
}

// turn asks for the receipt of what may have arrived, and sends what has none. A refused
// intent is sent too: the same authority answers as before, and a later one may judge
// it again.
func (c *Client) turn(ctx context.Context, d *Draft) outcome {
	if d.Sent {
		a, err := c.ask(ctx, d.Endpoint, "/v1/intents/"+d.Intent.ID)
		if err != nil {
			return c.failed(err)
		}
		if o, decided := found(a, d); decided {
			return o
		}
	}
	// Should the process die after this, the next one finds it as sent.
	d.Sent = true
	if err := c.opts.Drafts.Put(ctx, *d); err != nil {
		return stop(err)
	}
	a, err := c.post(ctx, d)
	if err != nil {
		return c.failed(err)
	}
	return c.judge(ctx, a, d)
}

// failed is a request without an answer. Only a token that was not given is known to
// have sent nothing.
func (c *Client) failed(err error) outcome {
	var none *noToken
	if errors.As(err, &none) {
		return stop(err)
	}
	return again(&Lost{err}, -1)
}

// found reads the answer to a question for a receipt. decided is false where the intent
// is to be sent.
func found(a reply, d *Draft) (o outcome, decided bool) {
	switch {
	case a.status == 200 && a.receipt.IntentID == d.Intent.ID:
		r := a.receipt
		switch {
		case !r.of(d):
			return differs(d, r.PayloadDigest), true
		case r.Outcome == "accepted":
			return done(r), true
		case r.Outcome == "unknown":
			return again(&Unknown{r}, -1), true
		case r.Outcome == "refused":
			return outcome{}, false
		}
	case a.is(404, "no-receipt"):
		return outcome{}, false
	case a.is(401, "unauthenticated"), a.is(403, "forbidden"), a.is(400, "malformed"):
		return a.problem.rejected(a.status), true
	}
	// a proxy's own 404 is no receipt either way
	return lost("asking for the receipt: %s", a), true
}

// judge reads the answer to an intent.
func (c *Client) judge(ctx context.Context, a reply, d *Draft) outcome {
	p := a.problem
	switch {
	case a.status == 202 && a.receipt.IntentID == d.Intent.ID && a.receipt.Outcome == "accepted":
		if !a.receipt.of(d) {
			return differs(d, a.receipt.PayloadDigest)
		}
		return done(a.receipt)
	case a.is(409, "revision-conflict"):
		return stop(&Conflict{Receipt: p.receipt(), Expected: p.Expected, Revision: p.Revision})
	case a.is(409, "refused"):
		return stop(&Refused{p.receipt()})
	case a.is(409, "outcome-unknown"):
		return again(&Unknown{p.receipt()}, p.after())
	case a.is(422, "intent-differs"):
		return differs(d, p.Recorded)
	case a.is(409, "authority-epoch-changed"), a.is(410, "authority-retired"):
		return c.follow(ctx, a, d)
	case a.is(503, "authority-closing"):
		return again(&Closing{Epoch: p.Epoch, After: p.after()}, p.after())
	case a.status < 500 && a.status >= 400 && p.Type != "":
		return p.rejected(a.status)
	}
	return lost("sending the intent: %s", a)
}

// follow goes where authority is. The draft stays marked as sent, so that the receipt is
// asked for there first.
func (c *Client) follow(ctx context.Context, a reply, d *Draft) outcome {
	p := a.problem
	if r := p.receipt(); r.Outcome == "accepted" && r.of(d) {
		return done(r)
	}
	stay := func(why error) error {
		if a.status == 410 {
			return &Retired{p.authority(), why}
		}
		return &Moved{p.authority(), why}
	}
	to := p.Endpoint
	if to == "" {
		to = d.Endpoint
	}
	if to == d.Endpoint && (p.Epoch == d.Epoch || a.status == 410) {
		return stop(stay(nil)) // the same again would be answered the same
	}
	if err := checkEndpoint(to); err != nil {
		return stop(stay(err))
	}
	if _, err := c.opts.Token(to); err != nil {
		return stop(stay(err))
	}
	wait := time.Duration(0)
	if p.Epoch <= d.Epoch {
		wait = -1 // one of the two is about to learn of the other
	}
	d.Endpoint, d.Epoch = to, p.Epoch
	if err := c.opts.Drafts.Put(ctx, *d); err != nil {
		return stop(err)
	}
	return again(stay(nil), wait)
}

// elsewhere asks the other known endpoints where authority is, while the one of the
// draft does not answer.
func (c *Client) elsewhere(ctx context.Context, d *Draft) error {
	for _, e := range c.opts.Endpoints {
		if e == d.Endpoint {
			continue
		}
		a, err := c.Authority(ctx, e, d.Intent.Firm, d.Intent.Matter)
		if err != nil {
			continue
		}
		to := a.Endpoint
		if to == "" && a.Kind == "rail" {
			to = e // it speaks of itself
		}
		if checkEndpoint(to) != nil {
			continue
		}
		if _, err := c.opts.Token(to); err != nil {
			continue
		}
		d.Endpoint, d.Epoch = to, a.Epoch
		return c.opts.Drafts.Put(ctx, *d)
	}
	return nil
}
