package nudge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
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

// Queue receives nudges. Its methods may be called at once by many receivers.
type Queue struct {
	aws             *awsClient
	receive, settle *sqs.Client
	url             string
	way             *way
}

// NewQueue makes the receiver. It reads the SDK's default configuration and makes no
// call; the error is as for NewSQS.
func NewQueue(ctx context.Context, opts QueueOptions) (*Queue, error) {
	if opts.Queue == "" {
		return nil, errNoQueue
	}
	client, err := newAWSClient(ctx, place{opts.Region, opts.Endpoint, opts.Timeout}, newMetrics(opts.Registerer))
	if err != nil {
		return nil, err
	}
	return &Queue{
		aws: client, url: opts.Queue,
		// A receive whose answer was cut has messages in hand that nobody knows of; asking
		// again at once would take more. The loop above decides.
		receive: newSQSClient(client, aws.NopRetryer{}),
		settle:  newSQSClient(client, nil), // deleting and releasing twice is the same as once
		way:     newWay(client, opts.Bus, opts.Source, opts.Queue),
	}, nil
}

// Receive waits up to wait (cut to whole seconds, at most 20) for up to limit messages
// (1 to 10). No message is no error.
func (q *Queue) Receive(ctx context.Context, limit int, wait time.Duration) ([]Message, error) {
	seconds := min(max(int32(wait/time.Second), 0), 20)
	return q.poll(ctx, limit, seconds, nil)
}

// poll is one ReceiveMessage; a nil visibility leaves the queue's own.
func (q *Queue) poll(ctx context.Context, limit int, wait int32, visibility *int32) (messages []Message, err error) {
	in := &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: int32(min(max(limit, 1), MaxEntries)), WaitTimeSeconds: wait,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount, types.MessageSystemAttributeNameSentTimestamp,
		},
	}
	if visibility != nil {
		in.VisibilityTimeout = *visibility
	}
	err = q.aws.call(ctx, apiReceive, q.aws.place.timeout+time.Duration(wait)*time.Second, func(ctx context.Context) (bool, error) {
		out, err := q.receive.ReceiveMessage(ctx, in)
		if err != nil {
			return false, err
		}
		for _, m := range out.Messages {
			messages = append(messages, message(m))
		}
		return true, nil
	})
	return messages, err
}

func message(m types.Message) Message {
	out := Message{ID: aws.ToString(m.MessageId), Handle: aws.ToString(m.ReceiptHandle), Body: []byte(aws.ToString(m.Body))}
	// A number that cannot be read stays zero: it is only ever shown.
	out.ReceiveCount, _ = strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	if ms, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64); err == nil {
		out.Sent = time.UnixMilli(ms).UTC()
	}
	return out
}

// Delete settles messages, in calls of 10. failed counts those that the answer did not
// name as deleted (an expired handle is one): they come back, which costs a look-up and
// nothing else. The error joins the calls that failed as a whole; the other calls are
// made all the same.
func (q *Queue) Delete(ctx context.Context, messages []Message) (failed int, err error) {
	return q.inTens(ctx, apiDelete, messages, func(ctx context.Context, chunk []Message) ([]string, []types.BatchResultErrorEntry, error) {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &q.url}
		for i, m := range chunk {
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: aws.String(m.Handle)})
		}
		out, err := q.settle.DeleteMessageBatch(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		return taken(out.Successful, func(e types.DeleteMessageBatchResultEntry) *string { return e.Id }), out.Failed, nil
	})
}

// Release makes messages visible at once (visibility 0), for another receiver or for
// the queue's redrive. failed and the error are as for Delete.
func (q *Queue) Release(ctx context.Context, messages []Message) (failed int, err error) {
	return q.inTens(ctx, apiRelease, messages, func(ctx context.Context, chunk []Message) ([]string, []types.BatchResultErrorEntry, error) {
		in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &q.url}
		for i, m := range chunk {
			in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: aws.String(m.Handle)})
		}
		out, err := q.settle.ChangeMessageVisibilityBatch(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		return taken(out.Successful, func(e types.ChangeMessageVisibilityBatchResultEntry) *string { return e.Id }), out.Failed, nil
	})
}

// inTens makes one call for every ten messages and counts what was not taken. settle
// is the call; it returns the ids that the answer names, by what it says of them.
func (q *Queue) inTens(ctx context.Context, api string, messages []Message,
	settle func(context.Context, []Message) (successful []string, refused []types.BatchResultErrorEntry, err error),
) (failed int, err error) {
	var faults []error
	for chunk := range slices.Chunk(messages, MaxEntries) {
		var results []Result
		err := q.aws.call(ctx, api, q.aws.place.timeout, func(ctx context.Context) (bool, error) {
			successful, refused, err := settle(ctx, chunk)
			if err != nil {
				return false, err
			}
			results = batchResults(len(chunk), successful, refused)
			return allSent(results), nil
		})
		if err != nil {
			failed += len(chunk)
			faults = append(faults, err)
			continue
		}
		for _, r := range results {
			if r.Verdict != Sent {
				failed++
			}
		}
	}
	return failed, errors.Join(faults...)
}

// Depth asks how many messages wait, are in hand, and are delayed.
func (q *Queue) Depth(ctx context.Context) (Depth, error) {
	attrs, err := q.attributes(ctx, apiDepth, types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible, types.QueueAttributeNameApproximateNumberOfMessagesDelayed)
	if err != nil {
		return Depth{}, err
	}
	var d Depth
	for name, into := range map[types.QueueAttributeName]*int{
		types.QueueAttributeNameApproximateNumberOfMessages:           &d.Visible,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible: &d.InFlight,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed:    &d.Delayed,
	} {
		if *into, err = strconv.Atoi(attrs[string(name)]); err != nil {
			return Depth{}, fmt.Errorf("read %s of %s: %w", name, q.url, err)
		}
	}
	return d, nil
}

// attributes asks for some attributes of the queue.
func (q *Queue) attributes(ctx context.Context, api string, names ...types.QueueAttributeName) (attrs map[string]string, err error) {
	err = q.aws.call(ctx, api, q.aws.place.timeout, func(ctx context.Context) (bool, error) {
		out, err := q.settle.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &q.url, AttributeNames: names})
		if err == nil {
			attrs = out.Attributes
		}
		return true, err
	})
	return attrs, err
}

// Preflight looks at the queue, its redrive and its dead-letter queue, and at its
// policy, rule and target where Bus is set, as EventBridge.Preflight does.
func (q *Queue) Preflight(ctx context.Context) ([]Finding, error) { return q.way.look(ctx) }
