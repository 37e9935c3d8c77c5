package nudge

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// peekVisibility is how long a letter that was only looked at stays away from others,
// in seconds: long enough that one List does not see it twice.
const peekVisibility = 15

// ErrNoDeadLetters is wrapped where a queue has no redrive policy.
var ErrNoDeadLetters = errors.New("the queue has no dead-letter queue")

// Letter is one message of a dead-letter queue, looked at and left there. Reason is
// empty where the body decodes as a nudge.
type Letter struct {
	Message

	Nudge  Nudge
	Reason Reason
}

// Move is one redrive task of a dead-letter queue. Status is AWS's word: RUNNING,
// COMPLETED, CANCELLING, CANCELLED or FAILED. Handle is empty unless it runs.
type Move struct {
	Handle  string
	Status  string
	Moved   int64
	ToMove  int64
	Started time.Time
	Failure string
}

// DeadLetters is the dead-letter queue of a Queue, for a person who redrives it.
type DeadLetters struct {
	queue *Queue // the dead-letter queue itself
	arn   string
}

// DeadLetters finds the queue's dead-letter queue by its redrive policy. The error
// wraps ErrNoDeadLetters where it has none.
func (q *Queue) DeadLetters(ctx context.Context) (*DeadLetters, error) {
	attrs, err := q.attributes(ctx, apiDepth, types.QueueAttributeNameRedrivePolicy)
	if err != nil {
		return nil, err
	}
	policy := attrs[string(types.QueueAttributeNameRedrivePolicy)]
	if policy == "" {
		return nil, ErrNoDeadLetters
	}
	redrive, err := parseRedrive(policy)
	if err != nil {
		return nil, err
	}
	letters := *q
	err = q.aws.call(ctx, apiDepth, q.aws.place.timeout, func(ctx context.Context) (bool, error) {
		out, err := q.settle.GetQueueUrl(ctx, queueOf(redrive.Target))
		if err == nil {
			letters.url = aws.ToString(out.QueueUrl)
		}
		return true, err
	})
	return &DeadLetters{queue: &letters, arn: redrive.Target}, err
}

// URL returns the URL of the dead-letter queue.
func (d *DeadLetters) URL() string { return d.queue.url }

// List looks at up to limit letters and leaves them: each stays invisible to others for
// 15 s, a redrive too, and its receive count grows by one. SQS hands out samples, so
// fewer than there are may come back.
func (d *DeadLetters) List(ctx context.Context, limit int) (letters []Letter, err error) {
	seen := make(map[string]bool)
	visibility := int32(peekVisibility)
	for len(letters) < limit {
		messages, err := d.queue.poll(ctx, limit-len(letters), 0, &visibility)
		if err != nil {
			return letters, err
		}
		fresh := slices.DeleteFunc(messages, func(m Message) bool { return seen[m.ID] })
		if len(fresh) == 0 {
			return letters, nil
		}
		for _, m := range fresh {
			letters = append(letters, letter(m))
			seen[m.ID] = true
		}
	}
	return letters, nil
}

func letter(m Message) Letter {
	l := Letter{Message: m}
	var fault *DecodeError
	n, err := Decode(m.Body)
	if errors.As(err, &fault) {
		l.Reason = fault.Reason
	}
	l.Nudge = n
	return l
}

// Release gives letters that List looked at back at once, so that a redrive takes them
// too. The results are those of Queue.Release.
func (d *DeadLetters) Release(ctx context.Context, letters []Letter) (failed int, err error) {
	messages := make([]Message, len(letters))
	for i, l := range letters {
		messages[i] = l.Message
	}
	return d.queue.Release(ctx, messages)
}

// Depth is as Queue.Depth.
func (d *DeadLetters) Depth(ctx context.Context) (Depth, error) { return d.queue.Depth(ctx) }

// Redrive starts to move all letters back to where they came from, at most perSecond a
// second (0: as fast as SQS likes), and returns the task's handle.
func (d *DeadLetters) Redrive(ctx context.Context, perSecond int) (handle string, err error) {
	in := &sqs.StartMessageMoveTaskInput{SourceArn: &d.arn}
	if perSecond > 0 {
		in.MaxNumberOfMessagesPerSecond = aws.Int32(int32(min(perSecond, 500)))
	}
	err = d.queue.aws.call(ctx, apiRedrive, d.queue.aws.place.timeout, func(ctx context.Context) (bool, error) {
		out, err := d.queue.receive.StartMessageMoveTask(ctx, in)
		if err == nil {
			handle = aws.ToString(out.TaskHandle)
		}
		return true, err
	})
	return handle, err
}

// Moves returns the latest redrive tasks, at most 10, the newest first.
func (d *DeadLetters) Moves(ctx context.Context) (moves []Move, err error) {
	in := &sqs.ListMessageMoveTasksInput{SourceArn: &d.arn, MaxResults: aws.Int32(10)}
	err = d.queue.aws.call(ctx, apiRedrive, d.queue.aws.place.timeout, func(ctx context.Context) (bool, error) {
		out, err := d.queue.settle.ListMessageMoveTasks(ctx, in)
		if err != nil {
			return false, err
		}
		for _, r := range out.Results {
			moves = append(moves, Move{
				Handle: aws.ToString(r.TaskHandle), Status: aws.ToString(r.Status), Moved: r.ApproximateNumberOfMessagesMoved,
				ToMove: aws.ToInt64(r.ApproximateNumberOfMessagesToMove), Started: time.UnixMilli(r.StartedTimestamp).UTC(),
				Failure: aws.ToString(r.FailureReason),
			})
		}
		return true, nil
	})
	return moves, err
}
