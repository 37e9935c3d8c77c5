package provision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Region is where stand-ins are said to be.
const Region = "us-east-1"

// Source is of the events that the rule takes; it is the relay's default.
const Source = "brief.ops"

// Options of a way. Name is the bus's, the rule's and the queue's, and what the names
// of the other queues begin with. Zero fields mean 30 s and 5 receives.
type Options struct {
	Endpoint   string // URL of a stand-in; empty: AWS itself, with the environment's credentials
	Name       string
	Visibility time.Duration
	Receives   int  // of a message before it is dead
	FullEvent  bool // the target hands over the whole envelope instead of $.detail
}

// Way is one way from a bus to a queue. The queues are URLs.
type Way struct {
	Bus, Rule            string
	Queue, Letters       string
	QueueARN, LettersARN string
	TargetLetters        string

	opts             Options
	events           *eventbridge.Client
	queues           *sqs.Client
	targetLettersARN string
	ruleARN          string
	cut              bool   // the queue is no target now
	seen             string // URL of Watch's queue
	undo             []func(context.Context) error
}

// Config is the SDK's configuration for an endpoint. At a stand-in the caller is
// nobody, so that no call is ever made with a person's own keys.
func Config(ctx context.Context, endpoint string) (aws.Config, error) {
	if endpoint != "" {
		return aws.Config{Region: Region, BaseEndpoint: &endpoint, Credentials: aws.CredentialsProviderFunc(nobody)}, nil
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return aws.Config{}, fmt.Errorf("read the AWS configuration: %w", err)
	}
	return cfg, nil
}

// nobody is who the stand-ins take everybody for.
func nobody(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "nobody", SecretAccessKey: "nothing"}, nil
}

// Lay makes the way. What it had made is removed when the rest fails.
func Lay(ctx context.Context, o Options) (*Way, error) {
	o.Visibility, o.Receives = cmp.Or(o.Visibility, 30*time.Second), cmp.Or(o.Receives, 5)
	cfg, err := Config(ctx, o.Endpoint)
	if err != nil {
		return nil, err
	}
	w := &Way{Bus: o.Name, Rule: o.Name, opts: o, events: eventbridge.NewFromConfig(cfg), queues: sqs.NewFromConfig(cfg)}
	err = w.layQueues(ctx)
	if err == nil {
		err = w.layBus(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.TakeDown(context.WithoutCancel(ctx)))
	}
	return w, nil
}

// TakeDown removes what was made, the latest first, and says what it could not. It is
// bounded by a minute.
func (w *Way) TakeDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var errs []error
	for _, remove := range slices.Backward(w.undo) {
		errs = append(errs, remove(ctx))
	}
	w.undo = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take down %s: %w", w.opts.Name, err)
	}
	return nil
}

func (w *Way) layQueues(ctx context.Context) (err error) {
	kept := map[string]string{"MessageRetentionPeriod": "1209600"} // 14 days
	if w.Letters, w.LettersARN, err = w.queue(ctx, "-dead", kept); err != nil {
		return err
	}
	if w.TargetLetters, w.targetLettersARN, err = w.queue(ctx, "-undelivered", kept); err != nil {
		return err
	}
	w.Queue, w.QueueARN, err = w.queue(ctx, "", map[string]string{
		"VisibilityTimeout": fmt.Sprint(int(w.opts.Visibility.Seconds())),
		"RedrivePolicy":     fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"%d"}`, w.LettersARN, w.opts.Receives),
	})
	return err
}

// queue makes one queue and returns its URL and ARN.
func (w *Way) queue(ctx context.Context, suffix string, attrs map[string]string) (url, arn string, err error) {
	name := w.opts.Name + suffix
	out, err := w.queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attrs})
	if err != nil {
		return "", "", fmt.Errorf("create the queue %s: %w", name, err)
	}
	w.undo = append(w.undo, func(ctx context.Context) error {
		_, err := w.queues.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: out.QueueUrl})
		return err
	})
	got, err := w.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: out.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameQueueArn},
	})
	if err != nil {
		return "", "", fmt.Errorf("read the ARN of %s: %w", name, err)
	}
	return aws.ToString(out.QueueUrl), got.Attributes["QueueArn"], nil
}

func (w *Way) layBus(ctx context.Context) error {
	if _, err := w.events.CreateEventBus(ctx, &eventbridge.CreateEventBusInput{Name: &w.Bus}); err != nil {
		return fmt.Errorf("create the bus %s: %w", w.Bus, err)
	}
	w.undo = append(w.undo, func(ctx context.Context) error {
		_, err := w.events.DeleteEventBus(ctx, &eventbridge.DeleteEventBusInput{Name: &w.Bus})
		return err
	})
	pattern := fmt.Sprintf(`{"source":[%q]}`, Source)
	rule, err := w.events.PutRule(ctx, &eventbridge.PutRuleInput{Name: &w.Rule, EventBusName: &w.Bus, EventPattern: &pattern})
	if err != nil {
		return fmt.Errorf("create the rule %s: %w", w.Rule, err)
	}
	w.undo = append(w.undo, func(ctx context.Context) error {
		_, err := w.events.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: &w.Rule, EventBusName: &w.Bus})
		return err
	})
	w.ruleARN = aws.ToString(rule.RuleArn)
	if err := w.letIn(ctx, w.Queue, w.QueueARN); err != nil {
		return err
	}
	w.cut = true // there is no target yet
	w.undo = append(w.undo, w.Cut)
	return w.Mend(ctx)
}

// letIn lets EventBridge send to a queue for our rule.
func (w *Way) letIn(ctx context.Context, url, arn string) error {
	text, err := json.Marshal(map[string]any{
		"Version": "2012-10-17",
		"Statement": []any{map[string]any{
			"Effect": "Allow", "Principal": map[string]string{"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage",
			"Resource": arn, "Condition": map[string]any{"ArnEquals": map[string]string{"aws:SourceArn": w.ruleARN}},
		}},
	})
	if err != nil {
		return err
	}
	return w.SetQueue(ctx, url, "Policy", string(text))
}

// SetQueue sets one attribute of a queue.
func (w *Way) SetQueue(ctx context.Context, url, attr, value string) error {
	_, err := w.queues.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{attr: value}})
	if err != nil {
		return fmt.Errorf("set %s of the queue %s: %w", attr, url, err)
	}
	return nil
}

const (
	queueTarget = "queue" // ids of the rule's targets
	seenTarget  = "seen"
)

// Cut takes the queue from the rule's targets: the bus accepts events as before, and
// none reaches the queue any more. A way that is cut stays so.
func (w *Way) Cut(ctx context.Context) error {
	if w.cut {
		return nil
	}
	err := w.removeTarget(ctx, queueTarget)
	w.cut = err == nil
	return err
}

// Mend makes the queue a target of the rule again.
func (w *Way) Mend(ctx context.Context) error {
	t := w.target(queueTarget, w.QueueARN)
	if !w.opts.FullEvent {
		t.InputPath = aws.String("$.detail")
	}
	err := w.putTarget(ctx, t)
	w.cut = w.cut && err != nil
	return err
}

func (w *Way) target(id, arn string) ebtypes.Target {
	return ebtypes.Target{Id: &id, Arn: &arn, DeadLetterConfig: &ebtypes.DeadLetterConfig{Arn: &w.targetLettersARN}}
}

func (w *Way) putTarget(ctx context.Context, t ebtypes.Target) error {
	out, err := w.events.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: &w.Rule, EventBusName: &w.Bus, Targets: []ebtypes.Target{t}})
	if err == nil && out.FailedEntryCount > 0 {
		err = fmt.Errorf("%d of 1 failed", out.FailedEntryCount) // inside an answer of 200
	}
	if err != nil {
		return fmt.Errorf("make %s a target of %s: %w", aws.ToString(t.Arn), w.Rule, err)
	}
	return nil
}

func (w *Way) removeTarget(ctx context.Context, id string) error {
	out, err := w.events.RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: &w.Rule, EventBusName: &w.Bus, Ids: []string{id}})
	if err == nil && out.FailedEntryCount > 0 {
		err = fmt.Errorf("%d of 1 failed", out.FailedEntryCount)
	}
	if err != nil {
		return fmt.Errorf("remove the target %s of %s: %w", id, w.Rule, err)
	}
	return nil
}
