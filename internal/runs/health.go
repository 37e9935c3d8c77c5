package runs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"briefrail/internal/jobs"
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
	probing bool      // a probe was allowed and has not reported back
	probe   rail.UUID // its run, once it is claimed
	kind    string
	inRow   map[rail.Key]bool // matters that met kind, without a success between
}

const (
	firstPause   = 2 * time.Second
	longestPause = 2 * time.Minute
	sameErrorRow = 5
)

func newHealth() *health { return &health{inRow: map[rail.Key]bool{}} }

// said takes the result of one build (nil for success) and reports whether the
// builder has just been paused, or paused again by its probe.
func (h *health) said(k rail.Key, run rail.UUID, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b *BuildError
	switch {
	case err == nil || !errors.As(err, &b) || b.Class == Permanent || b.Class == Mismatch:
		// it answered for the matter: the builder is there
		h.until, h.backoff, h.why = time.Time{}, 0, ""
		h.probing, h.probe = false, rail.UUID{}
		h.kind, h.inRow = "", map[rail.Key]bool{}
		return false
	case !h.until.IsZero():
		// a build that was under way when the pause began says nothing new
		return run == h.probe && h.pause(b)
	case b.Class == Unavailable:
		return h.pause(b)
	}
	if b.Kind != h.kind {
		h.kind, h.inRow = b.Kind, map[rail.Key]bool{}
	}
	h.inRow[k] = true
	return len(h.inRow) >= sameErrorRow && h.pause(b)
}

// pause starts a pause, or after a probe a longer one.
func (h *health) pause(b *BuildError) bool {
	h.backoff = min(max(2*h.backoff, firstPause), longestPause)
	h.until, h.why = time.Now().Add(h.backoff), b.Kind+": "+b.Text
	h.probing, h.probe = false, rail.UUID{}
	return true
}

// saidNothing is for a build that we ended ourselves: as a probe it was unused.
func (h *health) saidNothing(run rail.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.probe == run {
		h.probing, h.probe = false, rail.UUID{}
	}
}

// mayProbe reports whether the builder is paused, and if so whether this caller
// may send it one probing build now.
func (h *health) mayProbe() (probe, paused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.IsZero() {
		return false, false
	}
	if h.probing || time.Now().Before(h.until) {
		return false, true
	}
	h.probing = true
	return true, true
}

// probeIs names the run of the probe that mayProbe allowed; the nil UUID gives the
// probe back, as there was nothing to build. Without a probe it does nothing.
func (h *health) probeIs(run rail.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.probing && h.probe.IsZero() {
		h.probing, h.probe = !run.IsZero(), run
	}
}

func (h *health) paused() (time.Time, string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until, h.why, !h.until.IsZero()
}

func (h *health) isPaused() bool { _, _, p := h.paused(); return p }

// builderSaid feeds health and says once per pause why nothing is built. Only a
// build that ran into its timeout tells something of those that we ended.
func (r *Runner) builderSaid(ctx context.Context, c jobs.Claim, err error) {
	switch {
	case errors.Is(err, errTokenLost), errors.Is(err, errLeaseLost), errors.Is(err, errStopping):
		r.health.saidNothing(c.Token.Run)
		return
	case errors.Is(err, errTimeout):
		err = &BuildError{Class: Transient, Kind: KindTimeout, Text: errTimeout.Error()}
	}
	if !r.health.said(c.Key, c.Token.Run, err) {
		return
	}
	until, why, _ := r.health.paused()
	r.opts.Log.ErrorContext(ctx, "builder paused: claims are handed back uncharged, one probe at a time",
		slog.Duration("pause", time.Until(until)), slog.String("err", why))
}
