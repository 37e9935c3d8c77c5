package relay

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"briefrail/internal/nudge"
	"briefrail/internal/outbox"
)

// throttled sends through a gate for a while, four calls at once, to a sink that
// throttles so many of a hundred, and returns the calls made and those that were
// taken.
func throttled(t *testing.T, g *gate, answer func(), percent int, d time.Duration) (calls, taken int) {
	t.Helper()
	var asked, good atomic.Int64
	var senders sync.WaitGroup
	end := time.Now().Add(d)
	for i := range 4 {
		random := rand.New(rand.NewPCG(uint64(i), uint64(percent)))
		senders.Go(func() {
			for time.Now().Before(end) && g.enter(t.Context()) {
				answer()
				asked.Add(1)
				if random.IntN(100) < percent {
					g.said(slow, "")
					continue
				}
				g.said(fine, "")
				good.Add(1)
			}
		})
	}
	senders.Wait()
	return int(asked.Load()), int(good.Load())
}

// field report 12: five minutes of nothing but throttling and five of half of it. The
// rate of calls falls to next to nothing, settles, and is free again by itself.
func TestTheRateFallsAndRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, answer := &gate{}, func() { time.Sleep(20 * time.Millisecond) }
		free, _ := throttled(t, g, answer, 0, 10*time.Second)
		if free < 1900 {
			t.Errorf("%d calls in 10 s that nothing limits", free)
		}
		throttled(t, g, answer, 100, time.Minute)
		starved, _ := throttled(t, g, answer, 100, 4*time.Minute)
		if starved > 4*60 {
			t.Errorf("%d calls in 4 min while all are throttled", starved)
		}
		if starved < 4*60/4 {
			t.Errorf("%d calls in 4 min: a recovery would not be seen", starved)
		}
		throttled(t, g, answer, 50, time.Minute)
		half, taken := throttled(t, g, answer, 50, 4*time.Minute)
		if perSecond := float64(half) / 240; perSecond < 5 || perSecond > 60 {
			t.Errorf("%.1f calls a second while half are throttled", perSecond)
		}
		if taken < 4*60*3 {
			t.Errorf("%d calls taken in 4 min", taken)
		}
		throttled(t, g, answer, 0, time.Minute)
		if again, _ := throttled(t, g, answer, 0, 10*time.Second); again < 1900 {
			t.Errorf("%d calls in 10 s after a minute without throttling", again)
		}
	})
}

func TestAGatePausesProbesAndOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{pauses: outbox.Backoff{First: 4 * time.Second, Max: 10 * time.Second}}
		if c := g.said(forbidden, "ExpiredToken: old"); c != nowPaused {
			t.Fatalf("change %v", c)
		}
		if c := g.said(forbidden, "ExpiredToken: under way"); c != same {
			t.Errorf("a call that was under way changed it: %v", c)
		}
		if c := g.said(fine, ""); c != nowOpen {
			t.Errorf("a call that was under way and taken shows that it is open: %v", c)
		}
		g.said(forbidden, "AccessDenied: no")
		var last time.Duration
		for range 5 {
			until, why, yes := g.paused()
			wait := time.Until(until)
			if !yes || why != "AccessDenied: no" || wait <= 0 || wait > 10*time.Second {
				t.Fatalf("paused %v for %s: %s", yes, wait, why)
			}
			if g.enter(t.Context()) {
				t.Error("called while paused")
			}
			time.Sleep(wait)
			if !g.enter(t.Context()) {
				t.Error("no probe")
			}
			g.said(forbidden, "AccessDenied: no")
			last = wait
		}
		if last < 4*time.Second {
			t.Errorf("after five probes it waits %s", last)
		}
		until, _, _ := g.paused()
		time.Sleep(time.Until(until))
		if c := g.said(absent, "timeout: nobody there"); c != same {
			t.Errorf("a probe without an answer: %v", c)
		}
		if _, _, yes := g.paused(); !yes {
			t.Error("a probe without an answer opened it")
		}
		until, _, _ = g.paused()
		time.Sleep(time.Until(until))
		if c := g.said(slow, ""); c != nowOpen {
			t.Errorf("a sink that throttles is there: %v", c)
		}
	})
}

func TestMoods(t *testing.T) {
	t.Parallel()
	sent := nudge.Result{Verdict: nudge.Sent}
	denied := nudge.Result{Verdict: nudge.Paused, Code: "NotAuthorized"}
	busy := nudge.Result{Verdict: nudge.Retry, Code: "ThrottlingException"}
	broken := nudge.Result{Verdict: nudge.Retry, Code: "InternalFailure"}
	for name, c := range map[string]struct {
		results []nudge.Result
		want    mood
	}{
		"all sent":                  {[]nudge.Result{sent, sent}, fine},
		"one throttled of three":    {[]nudge.Result{sent, busy, sent}, fine},
		"half throttled":            {[]nudge.Result{sent, busy}, slow},
		"one broken alone":          {[]nudge.Result{broken}, fine},
		"denied":                    {[]nudge.Result{denied, denied}, forbidden},
		"denied beside a failure":   {[]nudge.Result{broken, denied}, forbidden},
		"denied beside one sent":    {[]nudge.Result{denied, sent}, fine},
		"nothing to say of nothing": {nil, fine},
	} {
		if got, _, _ := moodOf(c.results); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if m, code := moodOfError(errors.New("hm")); m != absent || code != "other" {
		t.Errorf("an error nobody knows: %v %s", m, code)
	}
}
