package nudge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	longestKept      = 14 * 24 * time.Hour // the longest that SQS keeps a message
	shortVisibility  = 20 * time.Second    // below: a batch may be handed out again while it is being decided
	fewReceives      = 5                   // below: a deploy pushes good messages out
	adviceRedrive    = "set a RedrivePolicy with maxReceiveCount 5 or more"
	adviceQueueThere = "create the queue, or correct the URL"
)

// queueFacts are the queue's attributes as far as they could be read.
type queueFacts struct {
	known bool
	arn   string
	attrs map[string]string
}

// lookQueue looks at the queue itself.
func (p *walk) lookQueue(ctx context.Context) queueFacts {
	attrs, ok := p.readQueue(ctx, CheckQueue, p.queue, adviceQueueThere)
	if !ok {
		return queueFacts{}
	}
	seconds, err := strconv.Atoi(attrs["VisibilityTimeout"])
	if visibility := time.Duration(seconds) * time.Second; err == nil && visibility < shortVisibility {
		p.found(CheckQueue, Warn, p.queue, fmt.Sprintf("messages come back after %s", visibility), "set VisibilityTimeout to 30 s: several times what one batch takes to write")
	} else {
		p.found(CheckQueue, OK, p.queue, "it exists", "")
	}
	return queueFacts{known: true, arn: attrs["QueueArn"], attrs: attrs}
}

// readQueue reads all attributes of a queue.
func (p *walk) readQueue(ctx context.Context, check, url, missing string) (attrs map[string]string, ok bool) {
	ok = p.ask(ctx, check, url, missing, func(ctx context.Context) error {
		out, err := p.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
			QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
		})
		if err == nil {
			attrs = out.Attributes
		}
		return err
	})
	return attrs, ok
}

// lookPolicy looks whether EventBridge may send to the queue for our rules.
func (p *walk) lookPolicy(q queueFacts, rules []types.Rule) {
	const advice = "allow sqs:SendMessage to events.amazonaws.com with aws:SourceArn of the rule"
	for _, r := range rules {
		arn := aws.ToString(r.Arn)
		switch mayDeliver(q.attrs["Policy"], arn) {
		case policyAllows:
			p.found(CheckPolicy, OK, q.arn, "EventBridge may send for "+arn, "")
		case policyOpen:
			p.found(CheckPolicy, Warn, q.arn, "EventBridge may send for any rule, of any account", advice)
		case policyUnreadable:
			p.found(CheckPolicy, Unknown, q.arn, "the policy says more than can be judged here", "look at it by hand: "+advice)
		default:
			p.found(CheckPolicy, Fail, q.arn, "EventBridge may not send for "+arn, advice)
		}
	}
}

// lookRedrive looks where messages go that nobody can handle.
func (p *walk) lookRedrive(ctx context.Context, q queueFacts) {
	redrive, err := parseRedrive(q.attrs["RedrivePolicy"])
	switch {
	case q.attrs["RedrivePolicy"] == "":
		p.found(CheckRedrive, Fail, q.arn, "the queue has no dead-letter queue: what cannot be read comes back until it is too old", adviceRedrive)
		return
	case err != nil:
		p.found(CheckRedrive, Unknown, q.arn, "the redrive policy cannot be read", adviceRedrive)
		return
	case redrive.Max < fewReceives:
		p.found(CheckRedrive, Warn, q.arn, fmt.Sprintf("a message moves away after %d receives", redrive.Max), adviceRedrive)
	default:
		p.found(CheckRedrive, OK, q.arn, fmt.Sprintf("a message moves away after %d receives", redrive.Max), "")
	}
	p.lookLetters(ctx, CheckLetters, redrive.Target, q.arn)
}

// lookLetters looks at a dead-letter queue by its ARN. source is the queue whose
// messages it must take, empty where that is EventBridge.
func (p *walk) lookLetters(ctx context.Context, check, arn, source string) {
	var url string
	if !p.ask(ctx, check, arn, "create the dead-letter queue: until then messages are lost instead of kept", func(ctx context.Context) error {
		out, err := p.queues.GetQueueUrl(ctx, queueOf(arn))
		if err == nil {
			url = aws.ToString(out.QueueUrl)
		}
		return err
	}) {
		return
	}
	attrs, ok := p.readQueue(ctx, check, url, adviceQueueThere)
	if !ok {
		return
	}
	seconds, _ := strconv.Atoi(attrs["MessageRetentionPeriod"])
	switch kept := time.Duration(seconds) * time.Second; {
	case source != "" && !admits(attrs["RedriveAllowPolicy"], source):
		p.found(check, Fail, arn, "its RedriveAllowPolicy does not admit the queue", "allow "+source)
	case kept < longestKept:
		p.found(check, Warn, arn, fmt.Sprintf("letters are kept for %s, counted from when they were first sent", kept), "set MessageRetentionPeriod to 14 days")
	default:
		p.found(check, OK, arn, "it keeps letters for 14 days", "")
	}
}

// queueOf makes the question for a queue's URL out of its ARN:
// arn:aws:sqs:REGION:ACCOUNT:NAME.
func queueOf(arn string) *sqs.GetQueueUrlInput {
	parts := strings.Split(arn, ":")
	in := &sqs.GetQueueUrlInput{QueueName: &parts[len(parts)-1]}
	if len(parts) == 6 && parts[4] != "" {
		in.QueueOwnerAWSAccountId = &parts[4]
	}
	return in
}

// admits reports whether a RedriveAllowPolicy lets source use the queue. None lets all.
func admits(policy, source string) bool {
	allow, err := parseAllow(policy)
	if err != nil || policy == "" {
		return err == nil || policy == ""
	}
	switch allow.Permission {
	case "denyAll":
		return false
	case "byQueue":
		return slices.Contains(allow.Sources, source)
	}
	return true
}
