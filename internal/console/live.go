package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	mostWatchers = 100 // open streams
	mostWatched  = 16  // different addresses that are watched at a time
	// freshEvery is how often watchers are told though nothing changed, so that the
	// ages on their pages grow.
	freshEvery = 15 * time.Second
	// writeTime is how long a watcher may take to be told.
	writeTime = 10 * time.Second
)

// watchers are those who watch an address. They are told versions and nothing else:
// what a page shows depends on who asks, so each asks for it.
type watchers struct {
	mu    sync.Mutex
	n     int
	watch map[string]*watched
	woken chan struct{} // of one: somebody new watches
}

// watched is an address that somebody watches.
type watched struct {
	place place
	query url.Values
	told  string
	by    map[chan string]bool
}

func newWatchers() *watchers {
	return &watchers{watch: map[string]*watched{}, woken: make(chan struct{}, 1)}
}

// join begins to watch; false where there are too many.
func (x *watchers) join(key string, p place, q url.Values) (chan string, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := x.watch[key]
	if x.n >= mostWatchers || (w == nil && len(x.watch) >= mostWatched) {
		return nil, false
	}
	if w == nil {
		w = &watched{place: p, query: q, by: map[chan string]bool{}}
		x.watch[key] = w
	}
	ch := make(chan string, 1)
	if w.told != "" {
		ch <- w.told
	}
	w.by[ch] = true
	x.n++
	wake(x.woken)
	return ch, true
}

func (x *watchers) leave(key string, ch chan string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := x.watch[key]
	delete(w.by, ch)
	x.n--
	if len(w.by) == 0 {
		delete(x.watch, key)
	}
}

// list is what is being watched.
func (x *watchers) list() map[string]*watched {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make(map[string]*watched, len(x.watch))
	for k, w := range x.watch {
		out[k] = w
	}
	return out
}

// tell gives a version to those who do not know it yet. A watcher that was slow finds
// the latest only.
func (x *watchers) tell(w *watched, version string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w.told == version {
		return
	}
	w.told = version
	for ch := range w.by {
		select {
		case <-ch:
		default:
		}
		ch <- version // never waits: the place of one is empty, and only this function fills it
	}
}

// wake rings a bell of one.
func wake(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// watch looks again at what is watched, one address after another, however many
// watch it.
func (c *Console) watch(ctx context.Context) error {
	tick := time.NewTicker(c.opts.Every)
	defer tick.Stop()
	for {
		for key, w := range c.watchers.list() {
			l := c.looks.at(ctx, key, true, func(ctx context.Context) (any, error) { return w.place.read(ctx, w.query) })
			if ctx.Err() != nil {
				break
			}
			c.watchers.tell(w, fmt.Sprintf("%s %d", l.version, time.Now().UnixNano()/int64(freshEvery)))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-c.watchers.woken:
		}
	}
}

// live tells a page that something else is to be seen at its address, until it goes.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	name, raw, _ := strings.Cut(r.URL.Query().Get("of"), "?")
	p, ok := c.places[name]
	if !ok {
		c.refuse(w, r, http.StatusNotFound, errNothing)
		return
	}
	q, err := p.parse(raw)
	if err != nil {
		c.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	key := name + "?" + q.Encode()
	ch, ok := c.watchers.join(key, p, q)
	if !ok {
		http.Error(w, "too many pages are live: load this one again by hand", http.StatusServiceUnavailable)
		return
	}
	defer c.watchers.leave(key, ch)
	w.Header().Set("Content-Type", "text/event-stream")
	stream(w, r, ch)
}

// stream writes events until the watcher goes or can no longer be written to.
func stream(w http.ResponseWriter, r *http.Request, ch <-chan string) {
	out := http.NewResponseController(w)
	beat := time.NewTicker(freshEvery)
	defer beat.Stop()
	_ = out.SetReadDeadline(time.Time{}) // or the server's own would end the request
	text := "retry: 3000\n\n"
	for {
		_ = out.SetWriteDeadline(time.Now().Add(writeTime)) // not every writer has one
		if _, err := fmt.Fprint(w, text); err != nil || out.Flush() != nil {
			return
		}
		select {
		case version := <-ch:
			text = "event: changed\ndata: " + strings.ReplaceAll(clip(200, version), "\n", " ") + "\n\n"
		case <-beat.C:
			text = ": still here\n\n"
		case <-r.Context().Done():
			return
		}
	}
}
