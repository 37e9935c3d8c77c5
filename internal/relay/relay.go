package relay

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/outbox"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

// Loops is told about each turn of a loop.
type Loops interface {
	Progress(loop string)
	Failed(loop, class string)
}

// Options of a Relay. Without Sinks it carries nothing: the ledger alone serves.
type Options struct {
	Name      string // of this process, for people
	Sinks     []Sink
	Lease     time.Duration  // of buckets: how soon a dead relay is replaced
	Inflight  int            // calls at once
	Timeout   time.Duration  // of one call, whatever the sink's own is
	MaxIdle   time.Duration  // longest pause between two looks at the outbox
	Backoff   outbox.Backoff // of a fact that was not taken; it is in its row
	Pauses    outbox.Backoff // of a sink that is not configured as it should be; zero means 5 s to 5 min
	StopGrace time.Duration  // for writing down and giving back after a stop; zero means 10 s
	Tracer    rail.Tracer    // nil for no traces
	Loops     Loops
	Log       *slog.Logger
}

// Relay carries facts. Any number may run beside one outbox.
type Relay struct {
	db      pg.DB
	opts    Options
	holder  outbox.Holder
	sinks   []*sink
	hand    *hand
	room    chan struct{} // a knock: something left the hand
	metrics *metrics
}

// sink is a Sink with its gate.
type sink struct {
	Sink
	gate gate
}

// New makes a Relay; it starts nothing.
func New(db pg.DB, reg prometheus.Registerer, o Options) *Relay {
	r := &Relay{
		db: db, opts: o, holder: outbox.Holder{ID: rail.NewUUID(), Name: o.Name},
		hand: newHand(), room: make(chan struct{}, 1),
	}
	if o.Pauses.First <= 0 {
		r.opts.Pauses = outbox.Backoff{First: 5 * time.Second, Max: 5 * time.Minute}
	}
	r.opts.StopGrace = cmp.Or(o.StopGrace, 10*time.Second)
	names := make([]string, len(o.Sinks))
	for i, s := range o.Sinks {
		r.sinks, names[i] = append(r.sinks, &sink{Sink: s, gate: gate{pauses: r.opts.Pauses}}), s.Name
	}
	r.metrics = newMetrics(reg, names, r.hand)
	return r
}

// Paused reports a sink that is paused for its configuration, until when and why.
func (r *Relay) Paused() (sink string, until time.Time, why string, yes bool) {
	for _, s := range r.sinks {
		if until, why, yes := s.gate.paused(); yes {
			return s.Name, until, why, true
		}
	}
	return "", time.Time{}, "", false
}

// Run carries facts until ctx ends, and returns ctx's error. Calls under way are
// finished and written down first, then the buckets are given back, so that others
// go on at once.
func (r *Relay) Run(ctx context.Context) error {
	if len(r.sinks) == 0 {
		return r.idle(ctx)
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var keeper sync.WaitGroup
	keeper.Go(func() { r.keep(keeping) })
	r.carry(ctx)
	stop()
	keeper.Wait()
	return errors.Join(ctx.Err(), r.release(ctx))
}

// idle is a relay without a sink.
func (r *Relay) idle(ctx context.Context) error {
	for {
		r.opts.Loops.Progress("relay")
		if !sleep(ctx, r.opts.MaxIdle) {
			return ctx.Err()
		}
	}
}

func (r *Relay) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.StopGrace)
	defer cancel()
	if err := outbox.ReleaseBuckets(ctx, r.db, r.holder); err != nil {
		r.opts.Log.WarnContext(ctx, "buckets not given back: others take them when the lease ends", slog.String("err", pg.Text(err, 300)))
	}
	return nil
}

// carry reads, sends and writes down until ctx ends and nothing is in hand.
func (r *Relay) carry(ctx context.Context) {
	calls, outcomes := make(chan call, r.most()), make(chan outcome, r.most())
	var senders, settler sync.WaitGroup
	settler.Go(func() { r.settle(ctx, outcomes) })
	for range r.opts.Inflight {
		senders.Go(func() {
			for c := range calls {
				outcomes <- r.send(ctx, c)
			}
		})
	}
	r.drain(ctx, calls)
	close(calls)
	senders.Wait()
	close(outcomes)
	settler.Wait()
}

// entries and bytes are what every sink takes in one call.
func (r *Relay) limits() (entries, bytes int) {
	entries, bytes = r.sinks[0].Entries, r.sinks[0].Bytes
	for _, s := range r.sinks[1:] {
		entries, bytes = min(entries, s.Entries), min(bytes, s.Bytes)
	}
	return max(1, entries), bytes
}

// callsAhead is how many calls are in hand for each that is made at once: enough
// that none waits for a reading.
const callsAhead = 10

// most is how many facts are in hand at most.
func (r *Relay) most() int {
	entries, _ := r.limits()
	return r.opts.Inflight * entries * callsAhead
}
