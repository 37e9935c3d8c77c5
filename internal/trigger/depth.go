package trigger

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/nudge"
)

// Depths exports how full the queue and its dead letters are. What could not be
// asked is absent, never a stale zero.
type Depths struct {
	every time.Duration
	ask   map[string]func(context.Context) (nudge.Depth, error)
	desc  *prometheus.Desc

	mu    sync.Mutex
	known map[string]nudge.Depth
}

// NewDepths makes the collector and registers it; Run asks.
func NewDepths(reg prometheus.Registerer, every time.Duration, main, dead func(context.Context) (nudge.Depth, error)) *Depths {
	d := &Depths{
		every: every, ask: map[string]func(context.Context) (nudge.Depth, error){"main": main, "dlq": dead}, known: map[string]nudge.Depth{},
		desc: prometheus.NewDesc("rail_queue_messages", "Approximate messages of the queue and of its dead letters.", []string{"queue", "state"}, nil),
	}
	reg.MustRegister(d)
	return d
}

// Describe implements prometheus.Collector.
func (d *Depths) Describe(ch chan<- *prometheus.Desc) { ch <- d.desc }

// Collect implements prometheus.Collector.
func (d *Depths) Collect(ch chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for queue, depth := range d.known {
		for state, n := range map[string]int{"visible": depth.Visible, "in_flight": depth.InFlight, "delayed": depth.Delayed} {
			ch <- prometheus.MustNewConstMetric(d.desc, prometheus.GaugeValue, float64(n), queue, state)
		}
	}
}

// Run asks until ctx ends, and returns ctx's error.
func (d *Depths) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		for queue, ask := range d.ask {
			d.refresh(ctx, queue, ask)
		}
		sleep(ctx, d.every)
	}
	return ctx.Err()
}

func (d *Depths) refresh(ctx context.Context, queue string, ask func(context.Context) (nudge.Depth, error)) {
	depth, err := ask(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		delete(d.known, queue)
		return
	}
	d.known[queue] = depth
}
