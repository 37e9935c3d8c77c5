package runs

import (
	"testing"
	"testing/synctest"
	"time"

	"briefrail/internal/rail"
)

func anyKey() rail.Key { return rail.Key{Firm: rail.NewUUID(), Matter: rail.NewUUID()} }

func failing(class BuildClass, kind string) error { return &BuildError{Class: class, Kind: kind} }

func TestBuilderAtFaultPausesAndProbesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHealth()
		if !h.said(anyKey(), rail.NewUUID(), failing(Unavailable, KindAuth)) {
			t.Fatal("not paused by 401")
		}
		if probe, paused := h.mayProbe(); probe || !paused {
			t.Fatal("probed inside the pause")
		}
		time.Sleep(firstPause)
		if probe, _ := h.mayProbe(); !probe {
			t.Fatal("no probe after the pause")
		}
		if probe, paused := h.mayProbe(); probe || !paused {
			t.Fatal("two probes at once")
		}
		probe := rail.NewUUID()
		h.probeIs(probe)
		if h.said(anyKey(), rail.NewUUID(), failing(Unavailable, KindAuth)) {
			t.Fatal("a build from before the pause made it longer")
		}
		if !h.said(anyKey(), probe, failing(Unavailable, KindAuth)) {
			t.Fatal("a failed probe did not pause again")
		}
		time.Sleep(firstPause)
		if probe, _ := h.mayProbe(); probe {
			t.Fatal("the second pause is no longer than the first")
		}
		time.Sleep(firstPause)
		if probe, _ := h.mayProbe(); !probe {
			t.Fatal("no second probe")
		}
		if h.said(anyKey(), rail.NewUUID(), nil); h.isPaused() {
			t.Fatal("a good answer did not end the pause")
		}
	})
}

func TestSameTransientErrorOnFiveMattersPauses(t *testing.T) {
	t.Parallel()
	h := newHealth()
	k := anyKey()
	for range 20 {
		if h.said(k, rail.NewUUID(), failing(Transient, KindHTTP5xx)) {
			t.Fatal("one bad matter paused everybody")
		}
	}
	for i := range sameErrorRow - 1 {
		if paused, last := h.said(anyKey(), rail.NewUUID(), failing(Transient, KindHTTP5xx)), i == sameErrorRow-2; paused != last {
			t.Fatalf("after %d matters: paused %v", i+2, paused)
		}
	}
}

func TestErrorsOfTheMatterKeepTheBuilderTrusted(t *testing.T) {
	t.Parallel()
	h := newHealth()
	for range 10 {
		h.said(anyKey(), rail.NewUUID(), failing(Transient, KindTimeout))
		if h.said(anyKey(), rail.NewUUID(), failing(Permanent, KindHTTP4xx)); h.isPaused() {
			t.Fatal("a builder that answers was paused")
		}
	}
	for i := range 10 { // no single kind five times in a row
		kind := []string{KindTimeout, KindHTTP5xx}[i%2]
		if h.said(anyKey(), rail.NewUUID(), failing(Transient, kind)) {
			t.Fatal("mixed errors count as the same one")
		}
	}
}

// A probe that was not used, or that we ended ourselves, is given back; however
// long one takes, there is no second beside it.
func TestProbeIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHealth()
		h.said(anyKey(), rail.NewUUID(), failing(Unavailable, KindHTML))
		time.Sleep(firstPause)
		for i, back := range []func(rail.UUID){h.probeIs, func(run rail.UUID) { h.probeIs(run); h.saidNothing(run) }} {
			if probe, _ := h.mayProbe(); !probe {
				t.Fatalf("no probe %d", i)
			}
			time.Sleep(time.Hour)
			if probe, _ := h.mayProbe(); probe {
				t.Fatalf("a second probe beside probe %d", i)
			}
			back([]rail.UUID{{}, rail.NewUUID()}[i])
		}
		if probe, _ := h.mayProbe(); !probe {
			t.Fatal("no further probe")
		}
	})
}

func TestScannerReadsEverythingOnceASecondWhileSlotsStayFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanner()
		if s.rows() != 0 {
			t.Fatal("the first pick should read everything")
		}
		s.saw(false)
		if s.rows() != headRows {
			t.Fatal("a second full read at once")
		}
		time.Sleep(fullEvery)
		s.saw(true)
		if s.rows() != headRows {
			t.Fatal("a full read although every slot was filled")
		}
		if s.saw(false); s.rows() != 0 {
			t.Fatal("no full read after a second of free slots")
		}
	})
}
