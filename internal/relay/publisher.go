package relay

import (
	"context"

	"briefrail/internal/nudge"
)

// Publisher sends nudges in one call and returns one Result a nudge, in the same
// order, or an error when the answer says nothing of any of them: then none counts
// as sent.
type Publisher interface {
	Publish(ctx context.Context, nudges []nudge.Nudge) ([]nudge.Result, error)
}

// Sink is a Publisher with the name under which the outbox remembers what it took
// (also a metric's label, so from a closed set) and the most that one call carries:
// entries, and bytes as nudge.Size counts them.
type Sink struct {
	Name  string
	Place string // bus or queue, for traces; may be empty
	Publisher
	Entries, Bytes int
}
