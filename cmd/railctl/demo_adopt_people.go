package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"briefrail/internal/authority"
	"briefrail/internal/brief"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// How much is going on all the while.
const (
	crowdPeople   = 3
	crowdThinks   = 60 * time.Millisecond // between two questions of one person
	crowdDocument = 250 * time.Millisecond
)

// said is one answer that somebody got to an intent.
type said struct {
	asked, at time.Time
	scope     string
	verdict   string
}

// asking is an intent and how long it took.
type asking struct {
	id     rail.UUID
	waited time.Duration // from the first answer that said to come back
}

// crowd are the people and the documents of the story. Each person sends the same
// intent, with the same digest, until somebody has accepted it.
type crowd struct {
	app, rail *pgxpool.Pool // the application's own session, and one that may submit
	keys      []rail.Key
	endpoint  func() string // of the old worker

	cancel context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex
	answers []said
	done    []asking
	stored  int
	err     error
}

// newCrowd chooses matters: some in each of the buckets that are watched, and as many
// elsewhere.
func newCrowd(ctx context.Context, app *pgxpool.Pool, submitDSN string) (*crowd, error) {
	c := &crowd{app: app}
	var err error
	c.rail, err = pg.Open(ctx, pg.Options{DSN: submitDSN, ApplicationName: "people of the demo", MaxConns: crowdPeople, StatementTimeout: 30 * time.Second})
	if err != nil {
		return nil, err
	}
	c.keys = spreadMatters(rail.NewUUID())
	return c, nil
}

// spreadMatters makes up matters of a firm, as many in each of the chosen buckets.
func spreadMatters(firm rail.UUID) (keys []rail.Key) {
	want := map[int]int{}
	for len(keys) < 2*adoptBuckets*adoptMatters {
		k := rail.Key{Firm: firm, Matter: rail.NewUUID()}
		if b := rail.Bucket(k.Matter); want[b] < adoptMatters && (want[b] > 0 || len(want) < 2*adoptBuckets) {
			want[b]++
			keys = append(keys, k)
		}
	}
	return keys
}

// scopeOf is the scope that a matter is in.
func scopeOf(k rail.Key) string { return bucketScope(rail.Bucket(k.Matter)) }

// scopes are those that have matters, in order.
func (c *crowd) scopes() (all []string) {
	for _, k := range c.keys {
		all = append(all, scopeOf(k))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (c *crowd) mattersOf(scope string) (n int) {
	for _, k := range c.keys {
		if scopeOf(k) == scope {
			n++
		}
	}
	return n
}

// document stores one of a matter, with its fact and the old worker's boolean.
func (c *crowd) document(ctx context.Context, k rail.Key) error {
	c.mu.Lock()
	c.stored++
	n := c.stored
	c.mu.Unlock()
	text := fmt.Sprintf("Letter %d.\n\nOn %d May 2013 the Buyer claims that delivery %d was late.\nThe Seller denies that delivery %d was late.\n", n, n%28+1, n, n)
	_, err := brief.Save(ctx, c.app, k, brief.Document{
		Name: fmt.Sprintf("letter-%04d.txt", n), MediaType: "text/plain", SHA256: sha256.Sum256([]byte(text)), Pages: []string{text},
	}, brief.IngestOptions{})
	return err
}

// begin has people ask and documents come until stop.
func (c *crowd) begin(ctx context.Context) {
	ctx, c.cancel = context.WithCancel(ctx)
	for range crowdPeople {
		c.all.Go(func() { c.keep(c.person(ctx), ctx) })
	}
	c.all.Go(func() {
		for rest(ctx, crowdDocument) == nil {
			if err := c.document(ctx, c.keys[rand.IntN(len(c.keys))]); err != nil {
				c.keep(err, ctx)
				return
			}
		}
	})
}

// keep remembers the first error that was none of ending.
func (c *crowd) keep(err error, ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && ctx.Err() == nil && c.err == nil {
		c.err = err
	}
}

func (c *crowd) failed() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// still ends what comes: an intent that was begun is asked to its end.
func (c *crowd) still() {
	if c.cancel != nil {
		c.cancel()
		c.all.Wait()
	}
}

func (c *crowd) stop() {
	if c == nil {
		return
	}
	c.still()
	c.rail.Close()
}

// person asks one question after the other. epoch is what the person's screen was
// last told of a scope, as a client has it.
func (c *crowd) person(ctx context.Context) error {
	epochs := map[string]int64{}
	for rest(ctx, crowdThinks) == nil {
		k := c.keys[rand.IntN(len(c.keys))]
		if err := c.ask(context.WithoutCancel(ctx), k, epochs); err != nil {
			return err
		}
	}
	return nil
}

// ask sends one intent until it is accepted, to whoever has authority.
func (c *crowd) ask(ctx context.Context, k rail.Key, epochs map[string]int64) error {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	scope := scopeOf(k)
	a := asking{id: rail.NewUUID()}
	intent := authority.Intent{ID: a.id, Key: k, Kind: authority.Regenerate, Digest: sha256.Sum256(a.id[:])}
	var since time.Time
	for {
		if epoch, ok := epochs[scope]; ok {
			intent.Epoch = &epoch
		}
		asked := time.Now()
		answer, err := authority.Submit(ctx, c.rail, intent)
		if err != nil {
			return fmt.Errorf("intent %s: %w", a.id, err)
		}
		epochs[scope] = answer.Epoch
		verdict, wait := answer.Verdict, answer.RetryAfter
		if verdict == authority.EpochChanged && answer.Writer != "rail" {
			if verdict, wait, err = c.askOld(ctx, intent); err != nil {
				return err
			}
		}
		c.note(said{asked, time.Now(), scope, verdict})
		switch verdict {
		case authority.Accepted:
			c.mu.Lock()
			if !since.IsZero() {
				a.waited = time.Since(since)
			}
			c.done = append(c.done, a)
			c.mu.Unlock()
			return nil
		case authority.Closing, authority.EpochChanged:
			if since.IsZero() && verdict == authority.Closing {
				since = time.Now()
			}
		default:
			return fmt.Errorf("intent %s: %s", a.id, verdict)
		}
		if wait != nil {
			if err := rest(ctx, min(*wait, time.Second)); err != nil {
				return err
			}
		}
	}
}

// askOld sends the same intent to the old worker.
func (c *crowd) askOld(ctx context.Context, i authority.Intent) (verdict string, wait *time.Duration, err error) {
	body, err := json.Marshal(map[string]string{
		"intent_id": i.ID.String(), "firm_id": i.Key.Firm.String(), "matter_id": i.Key.Matter.String(), "payload_digest": hex.EncodeToString(i.Digest[:]),
	})
	if err != nil {
		return "", nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint(), bytes.NewReader(body))
	if err != nil {
		return "", nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Timeout: demoPatience}).Do(req)
	if err != nil {
		return "", nil, fmt.Errorf("the old worker: %w", err)
	}
	defer res.Body.Close()
	var said struct {
		Retry float64 `json:"retry_after_ms"`
	}
	switch res.StatusCode {
	case http.StatusOK:
		return authority.Accepted, nil, nil
	case http.StatusConflict, http.StatusGone:
		return authority.EpochChanged, nil, nil
	case http.StatusServiceUnavailable:
		err := json.NewDecoder(res.Body).Decode(&said)
		after := time.Duration(said.Retry * float64(time.Millisecond))
		return authority.Closing, &after, err
	}
	return "", nil, errors.New("the old worker: " + res.Status)
}

func (c *crowd) note(s said) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, s)
}

// acceptedElsewhere counts what other scopes accepted while one was closed.
func (c *crowd) acceptedElsewhere(ch authority.Change) (n int) {
	if c == nil || ch.ClosedAt == nil || ch.AdvancedAt == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.answers {
		if a.verdict == authority.Accepted && a.scope != ch.Scope && a.at.After(*ch.ClosedAt) && a.at.Before(*ch.AdvancedAt) {
			n++
		}
	}
	return n
}

// strangers counts answers that told somebody to wait in a scope which was not moving.
func (c *crowd) strangers(moved []crossed) (waits, strangers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.answers {
		if a.verdict != authority.Closing {
			continue
		}
		waits++
		if !slices.ContainsFunc(moved, func(m crossed) bool {
			return m.change.Scope == a.scope && a.at.After(*m.change.ClosedAt) && a.asked.Before(m.over)
		}) {
			strangers++
		}
	}
	return waits, strangers
}

// snapshot is what was asked so far.
func (c *crowd) snapshot() []asking {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.done)
}
