package nudge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// SQSOptions place the queue that nudges are sent to without a bus. Queue is its URL;
// the other fields are as in EventBridgeOptions.
type SQSOptions struct {
	Queue      string
	Region     string
	Endpoint   string
	Timeout    time.Duration
	Bytes      int
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// SQS sends nudges straight to a queue with SendMessageBatch.
type SQS struct{}

// NewSQS makes the sink, as NewEventBridge does.
func NewSQS(ctx context.Context, opts SQSOptions) (*SQS, error) { return nil, errors.New("not yet") }

// Publish is as EventBridge.Publish.
func (s *SQS) Publish(ctx context.Context, nudges []Nudge) ([]Result, error) {
	return nil, errors.New("not yet")
}

// Limits is as EventBridge.Limits.
func (s *SQS) Limits() (entries, bytes int) { return MaxEntries, MaxBytes }

// Preflight looks at the queue and its dead-letter queue.
func (s *SQS) Preflight(ctx context.Context) ([]Finding, error) { return nil, errors.New("not yet") }
