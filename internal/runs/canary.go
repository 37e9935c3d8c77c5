package runs

import (
	"context"
	"fmt"
)

// canaryBuilder builds the canary's frame inside the worker: it costs no model
// call and needs nothing of the user's build service.
type canaryBuilder struct{}

func (canaryBuilder) Build(_ context.Context, r Request) (Frame, Usage, error) {
	return Frame{
		JSON:          fmt.Appendf(nil, `{"canary":true,"generation":%d}`, r.Token.Generation),
		SchemaVersion: "canary/1", BuilderVersion: "canary/1",
	}, Usage{}, nil
}
