package nudge

import (
	"cmp"
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// State is a finding in one word; the words are those of railctl doctor.
type State string

// The states. Unknown says that it could not be looked at, which is not well.
const (
	OK      State = "ok"
	Warn    State = "warn"
	Fail    State = "fail"
	Unknown State = "unknown"
)

// The checks of a Preflight, in the order of the way that a nudge takes.
const (
	CheckBus           = "bus"
	CheckRule          = "rule"
	CheckTarget        = "target"
	CheckTargetLetters = "target_dead_letters" // where EventBridge puts what it could not hand to the queue
	CheckQueue         = "queue"
	CheckPolicy        = "queue_policy"
	CheckRedrive       = "redrive"
	CheckLetters       = "dead_letters" // where SQS puts what nobody could handle
)

// Finding is one thing that a Preflight looked at. Check is one of the Check words;
// Resource its name, ARN or URL. Advice says what to do where something is wrong.
type Finding struct {
	Check    string `json:"check"`
	State    State  `json:"state"`
	Resource string `json:"resource"`
	Text     string `json:"text"`
	Advice   string `json:"advice,omitempty"`
}

// way is the way of a nudge as far as it is configured: a bus, a queue, or both.
type way struct {
	aws         *awsClient
	events      *eventbridge.Client
	queues      *sqs.Client
	bus, source string // no bus: nudges go straight to the queue
	queue       string // URL; empty: not known here
}

func newWay(c *awsClient, bus, source, queue string) *way {
	return &way{
		aws: c, bus: bus, source: cmp.Or(source, defaultSource), queue: queue, queues: newSQSClient(c, nil),
		events: eventbridge.NewFromConfig(c.cfg, func(o *eventbridge.Options) { o.BaseEndpoint = cmp.Or(c.base(), o.BaseEndpoint) }),
	}
}

// look is one walk along the way. A call that AWS refuses becomes a finding; one that
// got no answer at all ends the walk, as the next would wait for the same nothing.
func (w *way) look(ctx context.Context) ([]Finding, error) {
	p := &walk{way: w}
	var q queueFacts
	if w.queue != "" {
		q = p.lookQueue(ctx)
	}
	if w.bus != "" && p.err == nil {
		p.lookBus(ctx, q)
	}
	if q.known && p.err == nil {
		p.lookRedrive(ctx, q)
	}
	return p.findings, p.err
}

// walk collects what one look finds.
type walk struct {
	*way
	findings []Finding
	err      error // no answer: the walk is over
}

func (p *walk) found(check string, state State, resource, text, advice string) {
	p.findings = append(p.findings, Finding{Check: check, State: state, Resource: resource, Text: text, Advice: advice})
}

// ask makes one call of the walk. missing is what it means that the thing does not
// exist. It reports whether the call was answered well.
func (p *walk) ask(ctx context.Context, check, resource, missing string, f func(context.Context) error) bool {
	if p.err != nil {
		return false
	}
	err := p.aws.call(ctx, apiLook, p.aws.place.timeout, func(ctx context.Context) (bool, error) { return true, f(ctx) })
	if err == nil {
		return true
	}
	switch verdict, code := ClassOf(err); {
	case absent(code):
		p.found(check, Fail, resource, "it does not exist", missing)
	case code == codeCredentials:
		p.found(check, Unknown, resource, "there are no credentials: "+clip(err.Error()), "give the program a role, or look at AWS_PROFILE and the environment")
		p.err = err
	case verdict == Paused:
		p.found(check, Unknown, resource, "these credentials may not look at it: "+code, "allow the read, or look with an operator's credentials")
	default:
		p.found(check, Unknown, resource, "no usable answer: "+code, "look at the endpoint and the network, then again")
		p.err = p.fatal(code, err)
	}
	return false
}

// fatal returns the error where the rest of the walk would meet it too.
func (p *walk) fatal(code string, err error) error {
	switch code {
	case codeTimeout, codeCanceled, codeConnection:
		return err
	}
	return nil
}

// absent reports whether a code says that the thing asked for is not there.
func absent(code string) bool {
	switch code {
	case "QueueDoesNotExist", "ResourceNotFoundException", "QueueDeletedRecently":
		return true
	}
	return false
}

var errNoQueue = errors.New("no queue URL is configured")
