package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"time"
	"unicode/utf8"
)

// place is a page that is read: which parameters it knows, and what it answers.
type place struct {
	title  string
	fields []string
	read   func(ctx context.Context, q url.Values) (any, error)
}

// wrong is a mistake of whoever asks.
type wrong struct{ error }

func wrongf(format string, args ...any) error { return wrong{fmt.Errorf(format, args...)} }

// errGone says that there is no such thing; errBusy that others ask too much.
var (
	errGone = errors.New("the ledger has no such matter: nothing was ever demanded for it, no fact names it, or it was purged")
	errBusy = errors.New("the console is busy with other questions: try again in a moment")
)

// parse reads a query: only the fields of the place, each once, as text.
func (p place) parse(raw string) (url.Values, error) {
	if len(raw) > mostQuery {
		return nil, wrongf("the address has %d bytes of parameters, at most %d are read", len(raw), mostQuery)
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, wrongf("the address cannot be read: %w", err)
	}
	for name, values := range q {
		switch {
		case !slices.Contains(p.fields, name):
			return nil, wrongf("the address says %s=, which the page does not know", clip(40, name))
		case len(values) > 1:
			return nil, wrongf("the address says %s= more than once", name)
		case !utf8.ValidString(values[0]) || slices.Contains([]byte(values[0]), 0):
			return nil, wrongf("%s= is not text", name)
		case values[0] == "":
			q.Del(name)
		}
	}
	return q, nil
}

// look is what a page's questions were answered, at one instant.
type look struct {
	view    any
	err     error
	version string // another one means that something else is to be seen
	at      time.Time
}

// mostLooks is how many looks are kept; atOnce how many are made at a time.
const (
	mostLooks = 64
	atOnce    = 2
)

// looks keeps the last look at each address for one interval. Whoever asks for one
// that is being made waits for it.
type looks struct {
	every, timeout time.Duration
	desk           chan struct{}

	mu     sync.Mutex
	era    int // counts the acts: what was looked at before one is not shown after it
	kept   map[string]look
	making map[string]*making
}

// making is a look that is being made.
type making struct {
	done chan struct{}
	look look
	era  int
}

func newLooks(every, timeout time.Duration) *looks {
	return &looks{every: every, timeout: timeout, desk: make(chan struct{}, atOnce), kept: map[string]look{}, making: map[string]*making{}}
}

// forget makes the next look at anything a new one.
func (x *looks) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.era++
	clear(x.kept)
}

// at answers an address: from a look that is young enough, or a new one.
func (x *looks) at(ctx context.Context, key string, fresh bool, read func(context.Context) (any, error)) look {
	x.mu.Lock()
	if l, ok := x.kept[key]; ok && !fresh && time.Since(l.at) < x.every {
		x.mu.Unlock()
		return l
	}
	m := x.making[key]
	if m == nil || m.era != x.era {
		m = &making{done: make(chan struct{}), era: x.era}
		x.making[key] = m
		// not the asker's own: others may wait for it when that one has gone
		go x.make(context.WithoutCancel(ctx), key, m, read)
	}
	x.mu.Unlock()
	select {
	case <-m.done:
		return m.look
	case <-ctx.Done():
		return look{err: ctx.Err(), at: time.Now()}
	}
}

// make makes one look; its end is bounded by the timeout, which the goroutine of it
// does not outlive.
func (x *looks) make(ctx context.Context, key string, m *making, read func(context.Context) (any, error)) {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	l := look{err: errBusy}
	select {
	case x.desk <- struct{}{}:
		l.view, l.err = read(ctx)
		<-x.desk
	case <-ctx.Done():
	}
	l.at, l.version = time.Now(), version(l.view, l.err)
	x.mu.Lock()
	defer x.mu.Unlock()
	m.look = l
	if x.making[key] == m {
		delete(x.making, key)
	}
	if m.era == x.era {
		x.keep(key, l)
	}
	close(m.done)
}

func (x *looks) keep(key string, l look) {
	for other := range x.kept { // whichever comes first: asking again costs one look
		if len(x.kept) < mostLooks {
			break
		}
		delete(x.kept, other)
	}
	x.kept[key] = l
}

// An age in a sentence of internal/audit: it grows, and nothing happened.
var sentenceAge = regexp.MustCompile(`\((?:in )?[0-9][0-9.a-zµ]*(?: ago)?\)`)

// version names what a look shows.
func version(view any, err error) string {
	if err != nil {
		return "failed: " + err.Error()
	}
	text, err := json.Marshal(view)
	if err != nil {
		return "failed: " + err.Error() // unreachable: views are plain data
	}
	sum := sha256.Sum256(sentenceAge.ReplaceAll(text, nil))
	return hex.EncodeToString(sum[:8])
}
