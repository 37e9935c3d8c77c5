package relay

import (
	"context"

	"briefrail/internal/outbox"
)

// Result is the verdict on one fact of a batch. A fact counts as sent only when
// the answer names it as sent.
type Result struct {
	Sent bool
	Code string // of a refusal, from the sink's own closed set; empty otherwise
}

// Publisher is a sink: EventBridge, SQS, or none. Publish returns one Result a
// fact, in the same order, or an error when the answer says nothing of any of
// them: then none counts as sent.
type Publisher interface {
	Publish(ctx context.Context, facts []outbox.Fact) ([]Result, error)
}
