package provision

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// lookTimeout is the deadline of a look; the SDK has none by itself.
const lookTimeout = 10 * time.Second

// Watch adds a queue that gets every event of the rule, whole, whether or not the
// way's own queue does: it shows what the bus carries.
func (w *Way) Watch(ctx context.Context) error {
	url, arn, err := w.queue(ctx, "-seen", nil)
	if err != nil {
		return err
	}
	if err := w.letIn(ctx, url, arn); err != nil {
		return err
	}
	if err := w.putTarget(ctx, w.target(seenTarget, arn)); err != nil {
		return err
	}
	w.undo = append(w.undo, func(ctx context.Context) error { return w.removeTarget(ctx, seenTarget) })
	w.seen = url
	return nil
}

// Seen takes what Watch's queue holds now. An event may come twice, and one that the
// bus has just taken may not be there yet.
func (w *Way) Seen(ctx context.Context) (events [][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for {
		out, err := w.queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &w.seen, MaxNumberOfMessages: 10})
		if err != nil {
			return events, fmt.Errorf("receive from %s: %w", w.seen, err)
		}
		if len(out.Messages) == 0 {
			return events, nil
		}
		for _, m := range out.Messages {
			events = append(events, []byte(aws.ToString(m.Body)))
			if _, err := w.queues.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &w.seen, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return events, fmt.Errorf("delete from %s: %w", w.seen, err)
			}
		}
	}
}

// Waiting is how many messages the way's own queue holds, in hand and delayed ones
// included, as far as the endpoint knows.
func (w *Way) Waiting(ctx context.Context) (sum int, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	out, err := w.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &w.Queue, AttributeNames: []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}})
	if err != nil {
		return 0, fmt.Errorf("read the depth of %s: %w", w.Queue, err)
	}
	for name, text := range out.Attributes {
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("read %s of %s: %w", name, w.Queue, err)
		}
		sum += n
	}
	return sum, nil
}
