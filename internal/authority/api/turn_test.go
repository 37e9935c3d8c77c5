package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// Who waits for a place at the database waits no longer than its caller does, nor than
// slotLimit; what has its place is not ended by a caller who goes.
func TestATurnIsWaitedForWhileSomebodyWants(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ goes, waits time.Duration }{
		"the caller stays": {goes: time.Hour, waits: slotLimit},
		"the caller goes":  {goes: slotLimit / 4, waits: slotLimit / 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &Server{slots: make(chan struct{}, 1)}
				first, gone := asking(t, c.goes)
				ctx, give, ok := s.turn(first)
				if !ok {
					t.Fatal("there was a place")
				}
				begun := time.Now()
				second, _ := asking(t, c.goes)
				if _, _, ok := s.turn(second); ok || time.Since(begun) != c.waits {
					t.Errorf("a second turn: %v, after %s, want none after %s", ok, time.Since(begun), c.waits)
				}
				if gone(); ctx.Err() != nil {
					t.Errorf("its work was ended: %v", ctx.Err())
				}
				give()
				if ctx.Err() == nil {
					t.Error("what is over is not let go of")
				}
				third, _ := asking(t, time.Hour)
				if _, give, ok := s.turn(third); !ok {
					t.Error("the place was not given back")
				} else {
					give()
				}
			})
		})
	}
}

// asking is a request whose caller goes after a while.
func asking(t *testing.T, goes time.Duration) (*http.Request, context.CancelFunc) {
	t.Helper()
	ctx, gone := context.WithTimeout(t.Context(), goes)
	t.Cleanup(gone)
	return httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody), gone
}
