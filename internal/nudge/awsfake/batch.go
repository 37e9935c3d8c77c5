package awsfake

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

var batchID = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,80}\z`)

// sendInput is one message to send, alone or as an entry.
type sendInput struct {
	QueueURL     string `json:"QueueUrl"`
	ID           string `json:"Id"`
	MessageBody  string
	DelaySeconds *int
}

func (in sendInput) at() string { return in.QueueURL }

func (s *Server) sendMessage(c *call) (any, *refusal) {
	return onQueue(s, c, sendInput.at, func(in sendInput, q *queue) (any, *refusal) {
		id, r := s.accept(q, in, c.fault)
		if r != nil {
			return nil, r
		}
		return map[string]string{"MessageId": id, "MD5OfMessageBody": checksum(in.MessageBody)}, nil
	})
}

// accept takes one message into the queue. s.mu is held.
func (s *Server) accept(q *queue, in sendInput, f Fault) (id string, r *refusal) {
	if r := sound(q, in.MessageBody); r != nil {
		return "", r
	}
	delay := q.seconds("DelaySeconds")
	if in.DelaySeconds != nil {
		delay = time.Duration(*in.DelaySeconds) * time.Second
	}
	if delay < 0 || delay > 900*time.Second {
		return "", refuse(0, "InvalidParameterValue", "DelaySeconds must be between 0 and 900")
	}
	return s.arrive(q, in.MessageBody, delay, f)
}

// batchInput is any of the batch calls.
type batchInput[E any] struct {
	QueueURL string `json:"QueueUrl"`
	Entries  []E
}

func (in batchInput[E]) at() string { return in.QueueURL }

// batch is what all batch calls have in common: one result an entry, by id, and the
// script's faults.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-batch-api-actions.html
func batch[E any](s *Server, c *call, id func(E) string, one func(*queue, E) (map[string]any, *refusal)) (any, *refusal) {
	return onQueue(s, c, batchInput[E].at, func(in batchInput[E], q *queue) (any, *refusal) {
		if r := checkBatch(in.Entries, id); r != nil {
			return nil, r
		}
		done, failed := []map[string]any{}, []map[string]any{}
		for i, e := range in.Entries {
			if fault, bad := c.fault.fail[i]; bad {
				failed = append(failed, failure(id(e), fault.code, "scripted", fault.sender))
				continue
			}
			result, r := one(q, e)
			switch {
			case r != nil:
				failed = append(failed, failure(id(e), r.code, r.text, true))
			case !c.fault.omit[i]:
				result["Id"] = id(e)
				done = append(done, result)
			}
		}
		if c.fault.reorder {
			slices.Reverse(done)
		}
		return map[string]any{"Successful": done, "Failed": failed}, nil
	})
}

func failure(id, code, text string, sender bool) map[string]any {
	return map[string]any{"Id": id, "Code": code, "Message": text, "SenderFault": sender}
}

// checkBatch refuses the whole call as AWS would.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html#API_SendMessageBatch_Errors
func checkBatch[E any](entries []E, id func(E) string) *refusal {
	seen := make(map[string]bool)
	for _, e := range entries {
		switch key := id(e); {
		case !batchID.MatchString(key):
			return refuse(0, "InvalidBatchEntryId", "an id has 1 to 80 letters, digits, - and _")
		case seen[key]:
			return refuse(0, "BatchEntryIdsNotDistinct", "Id "+key+" repeated.")
		default:
			seen[key] = true
		}
	}
	switch {
	case len(entries) == 0:
		return refuse(0, "EmptyBatchRequest", "There should be at least one entry in the request.")
	case len(entries) > 10:
		return refuse(0, "TooManyEntriesInBatchRequest", fmt.Sprintf("Maximum number of entries per request are 10. You have sent %d.", len(entries)))
	}
	return nil
}

func (s *Server) sendBatch(c *call) (any, *refusal) {
	var in batchInput[sendInput]
	if r := input(c, &in); r != nil {
		return nil, r
	}
	total := 0
	for _, e := range in.Entries {
		total += len(e.MessageBody)
	}
	if total > s.opts.MaxBytes {
		return nil, refuse(0, "BatchRequestTooLong", fmt.Sprintf("Batch requests cannot be longer than %d bytes. You have sent %d bytes.", s.opts.MaxBytes, total))
	}
	return batch(s, c, func(e sendInput) string { return e.ID }, func(q *queue, e sendInput) (map[string]any, *refusal) {
		id, r := s.accept(q, e, c.fault)
		return map[string]any{"MessageId": id, "MD5OfMessageBody": checksum(e.MessageBody)}, r
	})
}

// settleInput is one message to delete or to change, alone or as an entry.
type settleInput struct {
	QueueURL          string `json:"QueueUrl"`
	ID                string `json:"Id"`
	ReceiptHandle     string
	VisibilityTimeout int
}

func (in settleInput) at() string { return in.QueueURL }

func (s *Server) deleteMessage(c *call) (any, *refusal) {
	return onQueue(s, c, settleInput.at, func(in settleInput, q *queue) (any, *refusal) {
		return struct{}{}, s.settle(q, in.ReceiptHandle)
	})
}

func (s *Server) deleteBatch(c *call) (any, *refusal) {
	return batch(s, c, func(e settleInput) string { return e.ID }, func(q *queue, e settleInput) (map[string]any, *refusal) {
		return map[string]any{}, s.settle(q, e.ReceiptHandle)
	})
}

// settle deletes a message by the handle of its latest receive. An older handle, or one
// of a message that is gone, succeeds and deletes nothing.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_DeleteMessage.html
func (s *Server) settle(q *queue, handle string) *refusal {
	if !wellFormed(handle) {
		return refuse(0, "ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
	}
	if e, ok := q.byHandle[handle]; ok {
		q.remove(e)
		s.stats.Deleted++
	}
	return nil
}

// wellFormed reports whether a handle may be one of ours: two UUIDs and a stroke.
func wellFormed(handle string) bool {
	return len(handle) == 73 && strings.IndexByte(handle, '/') == 36
}

func (s *Server) changeVisibility(c *call) (any, *refusal) {
	return onQueue(s, c, settleInput.at, func(in settleInput, q *queue) (any, *refusal) {
		return struct{}{}, s.change(q, in)
	})
}

func (s *Server) changeBatch(c *call) (any, *refusal) {
	return batch(s, c, func(e settleInput) string { return e.ID }, func(q *queue, e settleInput) (map[string]any, *refusal) {
		return map[string]any{}, s.change(q, e)
	})
}

// change sets how long a message in flight stays invisible from now on.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
func (s *Server) change(q *queue, in settleInput) *refusal {
	switch {
	case !wellFormed(in.ReceiptHandle):
		return refuse(0, "ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
	case in.VisibilityTimeout < 0 || in.VisibilityTimeout > 43200:
		return refuse(0, "InvalidParameterValue", "VisibilityTimeout must be between 0 and 43200")
	}
	e, ok := q.byHandle[in.ReceiptHandle]
	if !ok {
		return refuse(0, "InvalidParameterValue", "Message does not exist or is not available for visibility timeout change.")
	}
	m, _ := e.Value.(*message) // the list holds nothing else
	if !m.visible.After(s.now()) {
		return refuse(0, "MessageNotInflight", "The specified message is not in flight.")
	}
	m.visible = s.now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
	s.stats.Released++
	s.wake()
	return nil
}
