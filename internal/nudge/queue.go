package nudge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// QueueOptions place the queue that nudges are received from. Queue is its URL.
// Timeout is the deadline of every call beyond the wait of a long poll (zero means
// 10 s); the other fields are as in EventBridgeOptions. Bus and Source, when set, let
// Preflight look at the rule that feeds the queue.
type QueueOptions struct {
	Queue      string
	Bus        string
	Source     string
	Region     string
	Endpoint   string
	Timeout    time.Duration
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Message is one message in hand: invisible to others until its visibility ends.
// ReceiveCount counts this receive too; Sent is when it entered the queue by AWS's
// clock, zero where the answer did not say.
type Message struct {
	ID           string
	Handle       string
	Body         []byte
	ReceiveCount int
	Sent         time.Time
}

// Depth is the approximate number of messages of a queue, by state.
type Depth struct{ Visible, InFlight, Delayed int }

// Queue receives nudges.
type Queue struct{}

// NewQueue makes the receiver, as NewEventBridge does.
func NewQueue(ctx context.Context, opts QueueOptions) (*Queue, error) {
	return nil, errors.New("not yet")
}

// Receive waits up to wait (0 to 20 s, whole seconds) for up to max messages (1 to 10).
// No message is no error.
func (q *Queue) Receive(ctx context.Context, max int, wait time.Duration) ([]Message, error) {
	return nil, errors.New("not yet")
}

// Delete settles messages, in calls of 10. failed counts those that the answer did not
// name as deleted (an expired handle is one): they come back, which costs a look-up and
// nothing else. The error says that a whole call failed; it is joined, and the other
// calls are made all the same.
func (q *Queue) Delete(ctx context.Context, messages []Message) (failed int, err error) {
	return 0, errors.New("not yet")
}

// Release makes messages visible at once (visibility 0), for another receiver or for
// the queue's redrive. failed and the error are as for Delete.
func (q *Queue) Release(ctx context.Context, messages []Message) (failed int, err error) {
	return 0, errors.New("not yet")
}

// Depth asks how many messages wait, are in hand, and are delayed.
func (q *Queue) Depth(ctx context.Context) (Depth, error) { return Depth{}, errors.New("not yet") }

// Preflight looks at the queue, its policy, its redrive and its dead-letter queue, and
// at rule and target where Bus is set.
func (q *Queue) Preflight(ctx context.Context) ([]Finding, error) {
	return nil, errors.New("not yet")
}
