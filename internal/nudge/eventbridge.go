package nudge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// EventBridgeOptions place the bus. Region and Endpoint empty leave the decision to
// the SDK's own sources (AWS_REGION, AWS_ENDPOINT_URL*, profiles). Timeout is the
// deadline of every call (zero means 10 s); Bytes the most that one call carries
// (zero means MaxBytes). Queue, when set, is the URL of the queue that the rule should
// feed: Preflight then checks the way there too.
type EventBridgeOptions struct {
	Bus        string // name or ARN; empty means "default"
	Source     string // of every event; empty means "brief.ops"
	Queue      string
	Region     string
	Endpoint   string
	Timeout    time.Duration
	Bytes      int
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// EventBridge sends nudges to a bus with PutEvents.
type EventBridge struct{}

// NewEventBridge makes the sink. It reads the SDK's default configuration and makes no
// call; the error says that the configuration cannot be read or has no region.
func NewEventBridge(ctx context.Context, opts EventBridgeOptions) (*EventBridge, error) {
	return nil, errors.New("not yet")
}

// Publish sends the nudges in one call: at most Limits entries and bytes. It returns
// one Result a nudge, in the same order, or an error when the call has no answer for
// any of them (see ClassOf): then none counts as sent.
func (e *EventBridge) Publish(ctx context.Context, nudges []Nudge) ([]Result, error) {
	return nil, errors.New("not yet")
}

// Limits returns how many entries and how many bytes, counted by Size, one Publish
// takes.
func (e *EventBridge) Limits() (entries, bytes int) { return MaxEntries, MaxBytes }

// Preflight looks at bus, rules, targets, dead-letter queues and, where Queue is set,
// the queue and its policy. What the credentials may not read is Unknown. The error
// says that AWS could not be asked at all; the findings so far come with it.
func (e *EventBridge) Preflight(ctx context.Context) ([]Finding, error) {
	return nil, errors.New("not yet")
}
