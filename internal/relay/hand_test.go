package relay

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"briefrail/internal/outbox"
)

func pending(bucket int16, epoch int64, seqs ...int64) (out []outbox.Pending) {
	for _, s := range seqs {
		out = append(out, outbox.Pending{Fact: outbox.Fact{Seq: s}, Bucket: bucket, Epoch: epoch})
	}
	return out
}

// after returns what a look would read each bucket behind.
func after(l outbox.Look) map[int16]int64 {
	m := map[int16]int64{}
	for i, lease := range l.Leases {
		m[lease.Bucket] = l.After[i]
	}
	return m
}

// While a full reading is dear it is rare, and in between only what is new is read;
// what was put back and a bucket that came back under another epoch are new.
func TestHandReadsBehindWhatItHasRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHand()
		leases := []outbox.Lease{{Bucket: 1, Epoch: 1}, {Bucket: 2, Epoch: 1}, {Bucket: 3, Epoch: 1, Leaving: true}}
		h.own(leases, time.Now().Add(time.Hour))
		l, full := h.look(100)
		if !full || len(l.Leases) != 2 {
			t.Fatalf("first look: full %v, %+v", full, l)
		}
		got := append(pending(1, 1, 10, 11), pending(2, 1, 20)...)
		h.read(l, got, full, false, 50*time.Millisecond)
		l, full = h.look(100)
		if m := after(l); full || m[1] != 11 || m[2] != 20 || len(l.Hand) != 3 {
			t.Errorf("second look: full %v, %v, hand %v", full, m, l.Hand)
		}
		h.putBack(pending(1, 1, 10))
		if m := after(first(h.look(100))); m[1] != 9 {
			t.Errorf("what was put back is not read again: %v", m)
		}
		h.drop(pending(1, 1, 11))
		if b := h.busy(); !slices.Equal(b, []int16{2}) {
			t.Errorf("busy %v", b)
		}
		h.own([]outbox.Lease{{Bucket: 1, Epoch: 1}, {Bucket: 2, Epoch: 3}}, time.Now().Add(time.Hour))
		if m := after(first(h.look(100))); m[2] != 0 {
			t.Errorf("bucket under a new epoch is read behind %d", m[2])
		}
		if h.owns(pending(2, 1, 20)[0]) || !h.owns(pending(2, 3, 20)[0]) {
			t.Error("a fact is sent under the epoch it was read under, or not at all")
		}
		time.Sleep(rest * 50 * time.Millisecond)
		l, full = h.look(100)
		if m := after(l); !full || m[1] != 0 {
			t.Errorf("after a pause: full %v, %v", full, m)
		}
		time.Sleep(time.Hour)
		if l, _ := h.look(100); len(l.Leases) != 0 || h.owns(pending(1, 1, 1)[0]) {
			t.Error("reads or sends past its lease")
		}
	})
}

func first(l outbox.Look, _ bool) outbox.Look { return l }

// A reading that a limit cut short has seen its buckets up to the last fact only.
func TestHandDoesNotSkipBehindALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHand()
		h.own([]outbox.Lease{{Bucket: 1, Epoch: 1}, {Bucket: 2, Epoch: 1}}, time.Now().Add(time.Hour))
		l, full := h.look(2)
		h.read(l, pending(1, 1, 100, 101), full, true, time.Second)
		again := outbox.Pending{Fact: outbox.Fact{Seq: 5000}, Bucket: 2, Epoch: 1, Again: true}
		l, full = h.look(2)
		if l.Leases[0].Bucket != 2 {
			t.Errorf("the bucket that was cut off is not first: %+v", l.Leases)
		}
		h.read(l, []outbox.Pending{again}, full, true, time.Second)
		if m := after(first(h.look(2))); m[1] != 101 || m[2] != 0 {
			t.Errorf("read behind %v", m)
		}
	})
}

// A server that stalled once is no reason to look away from late commits for long.
func TestHandDoesNotTakeAStallForADearReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHand()
		h.own([]outbox.Lease{{Bucket: 1, Epoch: 1}}, time.Now().Add(time.Hour))
		for _, took := range []time.Duration{2 * time.Millisecond, 10 * time.Second} {
			l, full := h.look(100)
			if !full {
				t.Fatal("a look not at everything on a healthy server")
			}
			h.read(l, pending(1, 1, 10), full, false, took)
			time.Sleep(rest * cheap)
		}
		if l, full := h.look(100); !full || l.After[0] != 0 {
			t.Errorf("full %v, behind %v", full, l.After)
		}
	})
}
