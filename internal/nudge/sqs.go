package nudge

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/prometheus/client_golang/prometheus"
)

// SQSOptions place the queue that nudges are sent to without a bus. Queue is its URL;
// the other fields are as in EventBridgeOptions.
type SQSOptions struct {
	Queue      string
	Region     string
	Endpoint   string
	Timeout    time.Duration
	Bytes      int
	Registerer prometheus.Registerer
}

// SQS sends nudges straight to a queue with SendMessageBatch.
type SQS struct {
	aws   *awsClient
	api   *sqs.Client
	queue string
	bytes int
	way   *way
}

// NewSQS makes the sink. It reads the SDK's default configuration and makes no call;
// the error says that the configuration cannot be read or has no region, or that Queue
// is empty.
func NewSQS(ctx context.Context, opts SQSOptions) (*SQS, error) {
	if opts.Queue == "" {
		return nil, errNoQueue
	}
	client, err := newAWSClient(ctx, place{opts.Region, opts.Endpoint, opts.Timeout}, newMetrics(opts.Registerer))
	if err != nil {
		return nil, err
	}
	return &SQS{
		aws: client, queue: opts.Queue, bytes: cmp.Or(max(opts.Bytes, 0), MaxBytes),
		api: newSQSClient(client, aws.NopRetryer{}), // the SDK would send the same batch again after an answer that was cut
		way: newWay(client, "", "", opts.Queue),
	}, nil
}

// newSQSClient makes a client; a nil retryer leaves the SDK's own.
func newSQSClient(c *awsClient, retryer aws.Retryer) *sqs.Client {
	return sqs.NewFromConfig(c.cfg, func(o *sqs.Options) {
		o.BaseEndpoint = cmp.Or(c.base(), o.BaseEndpoint)
		if retryer != nil {
			o.Retryer = retryer
		}
	})
}

// Limits is as EventBridge.Limits.
func (s *SQS) Limits() (entries, bytes int) { return MaxEntries, s.bytes }

// Publish is as EventBridge.Publish.
func (s *SQS) Publish(ctx context.Context, nudges []Nudge) ([]Result, error) {
	return publish(ctx, nudges, s.bytes, s.send)
}

// Preflight looks at the queue, its redrive and its dead-letter queue, as
// EventBridge.Preflight does.
func (s *SQS) Preflight(ctx context.Context) ([]Finding, error) { return s.way.look(ctx) }

// send is one SendMessageBatch. Entries are named by their place in it.
func (s *SQS) send(ctx context.Context, nudges []Nudge) (results []Result, err error) {
	in := &sqs.SendMessageBatchInput{QueueUrl: &s.queue, Entries: make([]types.SendMessageBatchRequestEntry, len(nudges))}
	for i, n := range nudges {
		in.Entries[i] = types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(string(n.Encode()))}
	}
	err = s.aws.call(ctx, apiSend, s.aws.place.timeout, func(ctx context.Context) (bool, error) {
		out, err := s.api.SendMessageBatch(ctx, in)
		if err != nil {
			return false, err
		}
		results = batchResults(len(nudges), taken(out.Successful, func(e types.SendMessageBatchResultEntry) *string { return e.Id }), out.Failed)
		return allSent(results), nil
	})
	return results, err
}

// taken are the ids of the entries that an answer names as successful.
func taken[E any](entries []E, id func(E) *string) []string {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = aws.ToString(id(e))
	}
	return ids
}

// batchResults judges each entry of a batch call by its id: sent only where Successful
// names it and Failed does not. Ids that were never sent are ignored.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
func batchResults(n int, successful []string, failed []types.BatchResultErrorEntry) []Result {
	results := unanswered(n, codeUnknown, "named neither as successful nor as failed")
	for _, id := range successful {
		if i, ok := placeOf(id, n); ok {
			results[i] = Result{Verdict: Sent}
		}
	}
	for _, f := range failed {
		if i, ok := placeOf(aws.ToString(f.Id), n); ok {
			results[i] = entryResult(aws.ToString(f.Code), aws.ToString(f.Message), f.SenderFault)
		}
	}
	return results
}

// placeOf reads an id that we gave to an entry, in its one spelling.
func placeOf(id string, n int) (int, bool) {
	i, err := strconv.Atoi(id)
	return i, err == nil && i >= 0 && i < n && strconv.Itoa(i) == id
}
