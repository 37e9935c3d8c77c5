package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/config"
	"briefrail/internal/nudge"
	"briefrail/internal/telemetry"
	"briefrail/internal/trigger"
)

// queueServices are what trigger.source sqs adds: the consumer, and the depth of
// the queue and its dead letters.
type queueServices struct {
	consumer *trigger.Consumer
	depths   *trigger.Depths
}

func (w *worker) addQueue(ctx context.Context, cfg *config.Config, reg prometheus.Registerer) error {
	if cfg.Trigger.Source != "sqs" {
		return nil
	}
	queue, err := nudge.NewQueue(ctx, nudge.QueueOptions{
		Queue: cfg.Trigger.QueueURL, Region: cfg.AWS.Region, Endpoint: cfg.AWS.Endpoint, Registerer: reg,
	})
	if err != nil {
		return err
	}
	dead := func(ctx context.Context) (nudge.Depth, error) {
		letters, err := queue.DeadLetters(ctx)
		if err != nil {
			return nudge.Depth{}, err
		}
		return letters.Depth(ctx)
	}
	w.queue = &queueServices{
		consumer: w.trigger.NewConsumer(queue, cfg.Trigger.Receivers, cfg.Trigger.PollWait),
		depths:   trigger.NewDepths(reg, 30*time.Second, queue.Depth, dead),
	}
	return nil
}

// ready is empty with source ledger.
func (q *queueServices) ready() []telemetry.Check {
	if q == nil {
		return nil
	}
	return []telemetry.Check{{Name: "queue", Probe: func(context.Context) error { return q.consumer.Trouble() }}}
}
