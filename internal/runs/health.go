package runs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"briefrail/internal/rail"
)

// health decides whether the builder is trusted with work. It is a small state
// machine: trusted; paused until an instant, after an error that is the builder's
// own or the same transient error on five matters in a row; then probing, one
// build at a time, until one succeeds.
type health struct {
	mu      sync.Mutex
	until   time.Time // zero while trusted
	backoff time.Duration
	why     string
	probing bool
	kind    string
	inRow   map[rail.Key]bool // matters that met kind, without a success between
}

const (
	firstPause    = 2 * time.Second
	longestPause  = 2 * time.Minute
	sameErrorRow  = 5
	probeTakeover = time.Minute // a probe that never reports back is forgotten
)

func newHealth() *health { return &health{inRow: map[rail.Key]bool{}} }

// said takes the result of one build (nil for success) and reports whether the
// builder has just been paused.
func (h *health) said(k rail.Key, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b *BuildError
	switch {
	case err == nil || !errors.As(err, &b) || b.Class == Permanent || b.Class == Mismatch:
		// it answered for the matter: the builder is there
		h.until, h.backoff, h.probing, h.why = time.Time{}, 0, false, ""
		h.kind, h.inRow = "", map[rail.Key]bool{}
		return false
	case b.Class == Unavailable:
		return h.pause(b)
	}
	if b.Kind != h.kind {
		h.kind, h.inRow = b.Kind, map[rail.Key]bool{}
	}
	h.inRow[k] = true
	if len(h.inRow) >= sameErrorRow || !h.until.IsZero() {
		return h.pause(b)
	}
	return false
}

// pause starts or lengthens a pause; errors of builds that were already under way
// when it began do not lengthen it.
func (h *health) pause(b *BuildError) bool {
	if time.Now().Before(h.until) && !h.probing {
		return false
	}
	h.backoff = min(max(2*h.backoff, firstPause), longestPause)
	h.until, h.why, h.probing = time.Now().Add(h.backoff), b.Kind+": "+b.Text, false
	return true
}

// mayProbe reports whether the builder is paused, and if so whether this caller
// may send it one probing build now.
func (h *health) mayProbe() (probe, paused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.IsZero() {
		return false, false
	}
	now := time.Now()
	if now.Before(h.until) || (h.probing && now.Before(h.until.Add(probeTakeover))) {
		return false, true
	}
	if h.probing {
		h.until = now
	}
	h.probing = true
	return true, true
}

// probeUnused gives the probe back when there was nothing to build.
func (h *health) probeUnused() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probing = false
}

func (h *health) paused() (time.Time, string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until, h.why, !h.until.IsZero()
}

func (h *health) isPaused() bool { _, _, p := h.paused(); return p }

// builderSaid feeds health and says once per pause why nothing is built.
func (r *Runner) builderSaid(ctx context.Context, k rail.Key, err error) {
	if !r.health.said(k, err) {
		return
	}
	until, why, _ := r.health.paused()
	r.opts.Log.ErrorContext(ctx, "builder paused: claims are handed back uncharged, one probe at a time",
		slog.Duration("pause", time.Until(until)), slog.String("err", why))
}
