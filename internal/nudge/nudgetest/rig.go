// Package nudgetest builds a bus, a rule, a queue and its dead-letter queues on any
// endpoint that speaks like AWS, and holds the contract that every stand-in for AWS
// must keep. It serves tests only and owns nothing: what it builds is named at random
// and left to the endpoint.
package nudgetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"briefrail/internal/nudge"
	"briefrail/internal/rail"
)

// Region is where the stand-ins say that they are.
const Region = "us-east-1"

// Environment is what a process needs so that the SDK calls a stand-in: a region, keys
// that nobody checks, and no look at the machine's own settings.
func Environment() []string {
	return []string{
		"AWS_REGION=" + Region, "AWS_ACCESS_KEY_ID=nobody", "AWS_SECRET_ACCESS_KEY=nothing",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
	}
}

// Rig is one way from a bus to a queue. Source is the only one that the rule takes.
type Rig struct {
	Endpoint, Source     string
	Bus, Rule            string
	Queue, Letters       string // URLs
	QueueARN, LettersARN string
	TargetLetters        string // URL
	Receives             int    // before a message is dead
	events               *eventbridge.Client
	queues               *sqs.Client
	targetLettersARN     string
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
	if shape.Visibility == 0 {
		shape.Visibility = 30 * time.Second
	}
	if shape.Receives == 0 {
		shape.Receives = 3
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		t.Fatalf("read the SDK's configuration: %v", err)
	}
	if endpoint != "" {
		cfg.Region, cfg.BaseEndpoint, cfg.Credentials = Region, &endpoint, aws.CredentialsProviderFunc(nobody)
	}
	name := "rig-" + rail.NewUUID().String()[:13]
	r := &Rig{
		Endpoint: endpoint, Source: "brief.ops", Bus: name, Rule: name, Receives: shape.Receives,
		events: eventbridge.NewFromConfig(cfg), queues: sqs.NewFromConfig(cfg),
	}
	if endpoint == "" {
		t.Cleanup(func() { r.takeDown(context.WithoutCancel(ctx), t) })
	}
	r.buildQueues(ctx, t, name, shape)
	r.buildBus(ctx, t, shape)
	return r
}

// nobody is who the stand-ins take everybody for.
func nobody(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "nobody", SecretAccessKey: "nothing"}, nil
}

func (r *Rig) buildQueues(ctx context.Context, t *testing.T, name string, shape Shape) {
	t.Helper()
	kept := map[string]string{"MessageRetentionPeriod": "1209600"}
	r.Letters, r.LettersARN = r.queue(ctx, t, name+"-dead", kept)
	r.TargetLetters, r.targetLettersARN = r.queue(ctx, t, name+"-undelivered", kept)
	r.Queue, r.QueueARN = r.queue(ctx, t, name, map[string]string{
		"VisibilityTimeout": fmt.Sprint(int(shape.Visibility.Seconds())),
		"RedrivePolicy":     fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"%d"}`, r.LettersARN, shape.Receives),
	})
}

// queue makes one queue and returns its URL and ARN.
func (r *Rig) queue(ctx context.Context, t *testing.T, name string, attrs map[string]string) (url, arn string) {
	t.Helper()
	out, err := r.queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attrs})
	if err != nil {
		t.Fatalf("create the queue %s: %v", name, err)
	}
	got, err := r.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: out.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{"QueueArn"}})
	if err != nil {
		t.Fatalf("read the ARN of %s: %v", name, err)
	}
	return *out.QueueUrl, got.Attributes["QueueArn"]
}

func (r *Rig) buildBus(ctx context.Context, t *testing.T, shape Shape) {
	t.Helper()
	if _, err := r.events.CreateEventBus(ctx, &eventbridge.CreateEventBusInput{Name: &r.Bus}); err != nil {
		t.Fatalf("create the bus: %v", err)
	}
	pattern := fmt.Sprintf(`{"source":[%q]}`, r.Source)
	rule, err := r.events.PutRule(ctx, &eventbridge.PutRuleInput{Name: &r.Rule, EventBusName: &r.Bus, EventPattern: &pattern})
	if err != nil {
		t.Fatalf("create the rule: %v", err)
	}
	target := ebtypes.Target{Id: aws.String("queue"), Arn: &r.QueueARN, InputPath: aws.String("$.detail"), DeadLetterConfig: &ebtypes.DeadLetterConfig{Arn: &r.targetLettersARN}}
	if shape.FullEvent {
		target.InputPath = nil
	}
	if _, err := r.events.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: &r.Rule, EventBusName: &r.Bus, Targets: []ebtypes.Target{target}}); err != nil {
		t.Fatalf("create the target: %v", err)
	}
	r.SetQueue(ctx, t, "Policy", policyFor(r.QueueARN, *rule.RuleArn))
}

// takeDown removes everything, and says what it could not.
func (r *Rig) takeDown(ctx context.Context, t *testing.T) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err1 := r.events.RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: &r.Rule, EventBusName: &r.Bus, Ids: []string{"queue"}})
	_, err2 := r.events.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: &r.Rule, EventBusName: &r.Bus})
	_, err3 := r.events.DeleteEventBus(ctx, &eventbridge.DeleteEventBusInput{Name: &r.Bus})
	err := errors.Join(err1, err2, err3)
	for _, url := range []string{r.Queue, r.Letters, r.TargetLetters} {
		if url != "" {
			_, failed := r.queues.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url})
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		t.Errorf("take down %s: %v", r.Bus, err)
	}
}

// policyFor lets EventBridge send to the queue for one rule.
func policyFor(queue, rule string) string {
	text, _ := json.Marshal(map[string]any{ // strings and lists of them: it never fails
		"Version": "2012-10-17",
		"Statement": []any{map[string]any{
			"Effect": "Allow", "Principal": map[string]string{"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage",
			"Resource": queue, "Condition": map[string]any{"ArnEquals": map[string]string{"aws:SourceArn": rule}},
		}},
	})
	return string(text)
}

// SetQueue sets one attribute of the queue.
func (r *Rig) SetQueue(ctx context.Context, t *testing.T, attr, value string) {
	t.Helper()
	if _, err := r.queues.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &r.Queue, Attributes: map[string]string{attr: value}}); err != nil {
		t.Fatalf("set %s of the queue: %v", attr, err)
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
