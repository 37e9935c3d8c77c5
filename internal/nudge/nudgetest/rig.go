// Package nudgetest builds a bus, a rule, a queue and its dead-letter queues on any
// endpoint that speaks like AWS, and holds the contract that every stand-in for AWS
// must keep. It serves tests only and owns nothing: what it builds is named at random
// and left to the endpoint.
package nudgetest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"briefrail/internal/nudge"
	"briefrail/internal/nudge/provision"
	"briefrail/internal/rail"
)

// Environment is what a process needs so that the SDK calls a stand-in: a region, keys
// that nobody checks, and no look at the machine's own settings.
func Environment() []string {
	return []string{
		"AWS_REGION=" + provision.Region, "AWS_ACCESS_KEY_ID=nobody", "AWS_SECRET_ACCESS_KEY=nothing",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
	}
}

// Rig is one way from a bus to a queue. Source is the only one that the rule takes.
type Rig struct {
	*provision.Way

	Endpoint, Source string
	Receives         int // before a message is dead
	queues           *sqs.Client
}

// Shape is what a test may choose about a Rig. Zero fields mean 30 s and 3 receives.
type Shape struct {
	Visibility time.Duration
	Receives   int
	FullEvent  bool // the target hands over the whole envelope instead of $.detail
}

// Build makes the rig, or ends the test. An empty endpoint is AWS itself with the
// environment's credentials; there the rig is taken down with the test.
func Build(ctx context.Context, t *testing.T, endpoint string, shape Shape) *Rig {
	t.Helper()
	if shape.Receives == 0 {
		shape.Receives = 3
	}
	cfg, err := provision.Config(ctx, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	way, err := provision.Lay(ctx, provision.Options{
		Endpoint: endpoint, Name: "rig-" + rail.NewUUID().String()[:13],
		Visibility: shape.Visibility, Receives: shape.Receives, FullEvent: shape.FullEvent,
	})
	if err != nil {
		t.Fatal(err)
	}
	if endpoint == "" {
		t.Cleanup(func() {
			if err := way.TakeDown(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		})
	}
	return &Rig{Way: way, Endpoint: endpoint, Source: provision.Source, Receives: shape.Receives, queues: sqs.NewFromConfig(cfg)}
}

// SetQueue sets one attribute of the queue.
func (r *Rig) SetQueue(ctx context.Context, t *testing.T, attr, value string) {
	t.Helper()
	if err := r.Way.SetQueue(ctx, r.Queue, attr, value); err != nil {
		t.Fatal(err)
	}
}

// Send puts any text into the queue, past the bus.
func (r *Rig) Send(ctx context.Context, t *testing.T, body string) {
	t.Helper()
	if _, err := r.queues.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &r.Queue, MessageBody: &body}); err != nil {
		t.Fatalf("send to the queue: %v", err)
	}
}

// Bridge returns the sink over the rig's bus.
func (r *Rig) Bridge(ctx context.Context, t *testing.T, change ...func(*nudge.EventBridgeOptions)) *nudge.EventBridge {
	t.Helper()
	opts := nudge.EventBridgeOptions{Bus: r.Bus, Source: r.Source, Queue: r.Queue, Endpoint: r.Endpoint, Timeout: 30 * time.Second}
	for _, f := range change {
		f(&opts)
	}
	sink, err := nudge.NewEventBridge(ctx, opts)
	if err != nil {
		t.Fatalf("make the sink: %v", err)
	}
	return sink
}

// Straight returns the sink over the rig's queue.
func (r *Rig) Straight(ctx context.Context, t *testing.T, change ...func(*nudge.SQSOptions)) *nudge.SQS {
	t.Helper()
	opts := nudge.SQSOptions{Queue: r.Queue, Endpoint: r.Endpoint, Timeout: 30 * time.Second}
	for _, f := range change {
		f(&opts)
	}
	sink, err := nudge.NewSQS(ctx, opts)
	if err != nil {
		t.Fatalf("make the sink: %v", err)
	}
	return sink
}

// Receiver returns the receiver of the rig's queue.
func (r *Rig) Receiver(ctx context.Context, t *testing.T, change ...func(*nudge.QueueOptions)) *nudge.Queue {
	t.Helper()
	opts := nudge.QueueOptions{Queue: r.Queue, Bus: r.Bus, Source: r.Source, Endpoint: r.Endpoint, Timeout: 30 * time.Second}
	for _, f := range change {
		f(&opts)
	}
	q, err := nudge.NewQueue(ctx, opts)
	if err != nil {
		t.Fatalf("make the receiver: %v", err)
	}
	return q
}

// Nudges makes n nudges of facts that do not exist.
func Nudges(n int) []nudge.Nudge {
	out := make([]nudge.Nudge, n)
	for i := range out {
		out[i] = nudge.Nudge{
			Event: rail.NewUUID(), Firm: rail.NewUUID(), Matter: rail.NewUUID(), Name: "document.uploaded",
			TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		}
	}
	return out
}
