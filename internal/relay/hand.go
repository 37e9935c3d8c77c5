package relay

import (
	"slices"
	"sync"
	"time"

	"briefrail/internal/outbox"
)

// hand is what this relay knows of its buckets: until when it owns them, which facts
// it holds, and how far it has read. Nothing of it outlives the process.
type hand struct {
	mu     sync.Mutex
	leases []outbox.Lease
	until  time.Time // after which nothing may be sent: monotonic, not the database's
	facts  map[int64]int16
	after  map[int16]reached
	turn   int
	full   time.Time     // when everything was read last
	cost   time.Duration // of that
}

// reached is how far a bucket was read under an epoch.
type reached struct {
	epoch int64
	seq   int64
}

func newHand() *hand {
	return &hand{facts: map[int64]int16{}, after: map[int16]reached{}}
}

// own takes the leases of this moment, good until the given instant.
func (h *hand) own(leases []outbox.Lease, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases, h.until = leases, until
	for bucket, r := range h.after {
		if !slices.ContainsFunc(leases, func(l outbox.Lease) bool { return l.Bucket == bucket && l.Epoch == r.epoch }) {
			delete(h.after, bucket)
		}
	}
}

// owns reports whether a fact may still be sent.
func (h *hand) owns(f outbox.Pending) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.until) &&
		slices.ContainsFunc(h.leases, func(l outbox.Lease) bool { return l.Bucket == f.Bucket && l.Epoch == f.Epoch })
}

func (h *hand) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.facts)
}

// busy are the buckets of which something is in hand.
func (h *hand) busy() []int16 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []int16
	for _, b := range h.facts {
		out = append(out, b)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rest is how many times longer than a reading of everything the pause before the
// next one is.
const rest = 20

// cheap is what a reading of everything may always be believed to cost.
const cheap = 5 * time.Millisecond

// look says what to read next. Where published facts cannot be cleared away yet,
// because somebody holds an old snapshot, reading everything costs what lies there:
// it then takes a twentieth of the time at most, and in between only what is behind
// the last fact read is looked at. A fact that commits late is found by the full
// reading; while that is cheap it is every reading.
func (h *hand) look(limit int) (l outbox.Look, full bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.Limit = limit
	if !time.Now().Before(h.until) {
		return l, false
	}
	full = time.Since(h.full) >= rest*h.cost
	for i := range h.leases {
		lease := h.leases[(i+h.turn)%len(h.leases)]
		if lease.Leaving {
			continue
		}
		after := int64(0)
		if r := h.after[lease.Bucket]; !full && r.epoch == lease.Epoch {
			after = r.seq
		}
		l.Leases, l.After = append(l.Leases, lease), append(l.After, after)
	}
	for seq := range h.facts {
		l.Hand = append(l.Hand, seq)
	}
	return l, full
}

// read takes what a look has brought. A reading is not believed to be more than twice
// as dear as the one before: a server that stalled is no reason to look away from late
// commits for long, and what cannot be cleared away grows little by little.
func (h *hand) read(l outbox.Look, facts []outbox.Pending, full, cut bool, cost time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if full {
		h.full, h.cost = time.Now(), min(cost, max(2*h.cost, cheap))
	}
	last := map[int16]int64{}
	for _, f := range facts {
		h.facts[f.Seq] = f.Bucket
		if !f.Again {
			last[f.Bucket] = max(last[f.Bucket], f.Seq)
		}
	}
	for _, lease := range l.Leases {
		seq, found := last[lease.Bucket]
		if found && !cut {
			seq = max(seq, h.after[lease.Bucket].seq)
		}
		if found {
			h.after[lease.Bucket] = reached{lease.Epoch, seq}
		}
	}
	h.turnTo(facts)
}

// turnTo lets the next look begin behind the bucket that this one ended with, so
// that no bucket's backlog is always first.
func (h *hand) turnTo(facts []outbox.Pending) {
	h.turn++
	if len(facts) == 0 || len(h.leases) == 0 {
		return
	}
	last := facts[len(facts)-1].Bucket
	if i := slices.IndexFunc(h.leases, func(l outbox.Lease) bool { return l.Bucket == last }); i >= 0 {
		h.turn = i + 1
	}
}

// drop lets go of facts that are written down, or belong to somebody else now.
func (h *hand) drop(facts []outbox.Pending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range facts {
		delete(h.facts, f.Seq)
	}
}

// putBack lets go of facts that were not sent: they are to be read again.
func (h *hand) putBack(facts []outbox.Pending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range facts {
		delete(h.facts, f.Seq)
		if r, ok := h.after[f.Bucket]; ok && r.seq >= f.Seq && !f.Again {
			h.after[f.Bucket] = reached{r.epoch, f.Seq - 1}
		}
	}
}

// buckets is how many buckets this relay owns now.
func (h *hand) buckets() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !time.Now().Before(h.until) {
		return 0
	}
	return len(h.leases)
}
