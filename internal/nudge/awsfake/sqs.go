package awsfake

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var queueName = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,80}\z`)

// numeric are the attributes that are numbers, with their bounds; constant.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html
var numeric = map[string][2]int{
	"VisibilityTimeout": {0, 43200}, "DelaySeconds": {0, 900}, "MessageRetentionPeriod": {60, 1209600},
	"ReceiveMessageWaitTimeSeconds": {0, 20}, "MaximumMessageSize": {1024, 1 << 20},
}

// checkAttributes refuses what AWS would refuse.
func checkAttributes(attrs map[string]string) *refusal {
	for name, value := range attrs {
		bounds, known := numeric[name]
		if !known {
			if !slices.Contains([]string{"Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId", "SqsManagedSseEnabled"}, name) {
				return refuse(0, "InvalidAttributeName", "unknown attribute "+name)
			}
			continue
		}
		if n, err := strconv.Atoi(value); err != nil || n < bounds[0] || n > bounds[1] {
			return refuse(0, "InvalidAttributeValue", "invalid value for "+name)
		}
	}
	return nil
}

func (s *Server) createQueue(c *call) (any, *refusal) {
	var in struct {
		QueueName  string
		Attributes map[string]string
	}
	if r := input(c, &in); r != nil {
		return nil, r
	}
	if !queueName.MatchString(in.QueueName) {
		return nil, refuse(0, "InvalidParameterValue", "the fake has standard queues of 1 to 80 letters, digits, - and _")
	}
	if r := checkAttributes(in.Attributes); r != nil {
		return nil, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.queues[in.QueueName]; !there {
		s.queues[in.QueueName] = s.newQueue(in.QueueName, in.Attributes)
	}
	return map[string]string{"QueueUrl": s.url(c, in.QueueName)}, nil
}

// url is the URL of a queue as its caller reaches it.
func (s *Server) url(c *call, name string) string {
	return "http://" + c.host + "/" + s.opts.Account + "/" + name
}

// find returns the queue of a URL. s.mu is held.
func (s *Server) find(rawURL string) (*queue, *refusal) {
	u, err := url.Parse(rawURL)
	if err != nil || rawURL == "" {
		return nil, refuse(0, "InvalidAddress", "the queue URL cannot be read")
	}
	if q, ok := s.queues[u.Path[strings.LastIndexByte(u.Path, '/')+1:]]; ok {
		return q, nil
	}
	return nil, refuse(0, "QueueDoesNotExist", "The specified queue does not exist.")
}

func (s *Server) getQueueURL(c *call) (any, *refusal) {
	var in struct {
		QueueName string
		Owner     string `json:"QueueOwnerAWSAccountId"`
	}
	if r := input(c, &in); r != nil {
		return nil, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.queues[in.QueueName]; !ok || (in.Owner != "" && in.Owner != s.opts.Account) {
		return nil, refuse(0, "QueueDoesNotExist", "The specified queue does not exist.")
	}
	return map[string]string{"QueueUrl": s.url(c, in.QueueName)}, nil
}

func (s *Server) listQueues(c *call) (any, *refusal) {
	var in struct{ QueueNamePrefix string }
	if r := input(c, &in); r != nil {
		return nil, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	urls := []string{}
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		if strings.HasPrefix(name, in.QueueNamePrefix) {
			urls = append(urls, s.url(c, name))
		}
	}
	return map[string]any{"QueueUrls": urls}, nil
}

// onQueue is what most calls begin with: their parameters and their queue, with s.mu
// held for f.
func onQueue[In any](s *Server, c *call, queueURL func(In) string, f func(In, *queue) (any, *refusal)) (any, *refusal) {
	var in In
	if r := input(c, &in); r != nil {
		return nil, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, r := s.find(queueURL(in))
	if r != nil {
		return nil, r
	}
	return f(in, q)
}

type attributesInput struct {
	QueueURL       string `json:"QueueUrl"`
	AttributeNames []string
	Attributes     map[string]string
}

func (in attributesInput) at() string { return in.QueueURL }

// getAttributes answers the attributes that were asked for, or All.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html
func (s *Server) getAttributes(c *call) (any, *refusal) {
	return onQueue(s, c, attributesInput.at, func(in attributesInput, q *queue) (any, *refusal) {
		visible, inFlight, delayed := q.depth(s.now())
		all := maps.Clone(q.attrs)
		all["QueueArn"] = q.arn
		all["CreatedTimestamp"] = strconv.FormatInt(q.created.Unix(), 10)
		all["ApproximateNumberOfMessages"] = strconv.Itoa(visible)
		all["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(inFlight)
		all["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(delayed)
		if !slices.Contains(in.AttributeNames, "All") {
			maps.DeleteFunc(all, func(k, _ string) bool { return !slices.Contains(in.AttributeNames, k) })
		}
		return map[string]any{"Attributes": all}, nil
	})
}

func (s *Server) setAttributes(c *call) (any, *refusal) {
	return onQueue(s, c, attributesInput.at, func(in attributesInput, q *queue) (any, *refusal) {
		if r := checkAttributes(in.Attributes); r != nil {
			return nil, r
		}
		for name, value := range in.Attributes {
			if q.attrs[name] = value; value == "" {
				delete(q.attrs, name)
			}
		}
		s.wake()
		return struct{}{}, nil
	})
}

func (s *Server) purge(c *call) (any, *refusal) {
	return onQueue(s, c, attributesInput.at, func(_ attributesInput, q *queue) (any, *refusal) {
		q.messages.Init()
		clear(q.byHandle)
		return struct{}{}, nil
	})
}

func (s *Server) deleteQueue(c *call) (any, *refusal) {
	return onQueue(s, c, attributesInput.at, func(_ attributesInput, q *queue) (any, *refusal) {
		delete(s.queues, q.name)
		s.wake()
		return struct{}{}, nil
	})
}

type receiveInput struct {
	QueueURL                    string `json:"QueueUrl"`
	MaxNumberOfMessages         *int
	VisibilityTimeout           *int
	WaitTimeSeconds             *int
	AttributeNames              []string
	MessageSystemAttributeNames []string
}

// check fills in the defaults and refuses what AWS would refuse.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html
func (in *receiveInput) check(q *queue) (limit int, visibility, wait time.Duration, r *refusal) {
	limit, visibility, wait = 1, q.seconds("VisibilityTimeout"), q.seconds("ReceiveMessageWaitTimeSeconds")
	if in.MaxNumberOfMessages != nil {
		limit = *in.MaxNumberOfMessages
	}
	if in.VisibilityTimeout != nil {
		visibility = time.Duration(*in.VisibilityTimeout) * time.Second
	}
	if in.WaitTimeSeconds != nil {
		wait = time.Duration(*in.WaitTimeSeconds) * time.Second
	}
	switch {
	case limit < 1 || limit > 10:
		r = refuse(0, "InvalidParameterValue", "MaxNumberOfMessages must be between 1 and 10")
	case visibility < 0 || visibility > 43200*time.Second:
		r = refuse(0, "InvalidParameterValue", "VisibilityTimeout must be between 0 and 43200")
	case wait < 0 || wait > 20*time.Second:
		r = refuse(0, "InvalidParameterValue", "WaitTimeSeconds must be between 0 and 20")
	}
	return limit, visibility, wait, r
}

// receive is ReceiveMessage with its long poll: it ends with the first messages, when
// the wait is over, or when the caller has gone (then nothing is handed out).
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-short-and-long-polling.html
func (s *Server) receive(c *call) (any, *refusal) {
	var in receiveInput
	if r := input(c, &in); r != nil {
		return nil, r
	}
	var over <-chan time.Time
	for {
		messages, again, wait, r := s.look(c, in)
		if r != nil || len(messages) > 0 || wait == 0 {
			return map[string]any{"Messages": messages}, r
		}
		if over == nil {
			over = time.After(wait)
		}
		select {
		case <-c.ctx.Done():
			return map[string]any{}, nil
		case <-over:
			return map[string]any{}, nil
		case <-again.changed:
		case <-again.timer:
		}
	}
}

// again is what a long poll waits for.
type again struct {
	changed <-chan struct{}
	timer   <-chan time.Time
}

// look takes what is there now.
func (s *Server) look(c *call, in receiveInput) (out []map[string]any, next again, wait time.Duration, r *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, r := s.find(in.QueueURL)
	if r != nil {
		return nil, next, 0, r
	}
	limit, visibility, wait, r := in.check(q)
	if r != nil || c.ctx.Err() != nil {
		return nil, next, 0, r
	}
	taken := s.take(q, limit, visibility)
	if c.fault.reorder {
		slices.Reverse(taken)
	}
	for _, m := range taken {
		out = append(out, m.wire(in))
	}
	s.stats.Received += len(taken)
	next.changed = s.changed
	if len(taken) > 0 || wait == 0 {
		return out, next, wait, nil // nobody waits: the queue need not be read to its end
	}
	if d, ok := q.nextChange(s.now()); ok {
		next.timer = time.After(d)
	}
	return out, next, wait, nil
}

// wire is the message as the answer has it.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_Message.html
func (m *message) wire(in receiveInput) map[string]any {
	attrs := map[string]string{
		"ApproximateReceiveCount":          strconv.Itoa(m.receives),
		"SentTimestamp":                    strconv.FormatInt(m.sent.UnixMilli(), 10),
		"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.first.UnixMilli(), 10),
		"SenderId":                         "awsfake",
	}
	if m.source != "" {
		attrs["DeadLetterQueueSourceArn"] = m.source
	}
	wanted := slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames)
	if !slices.Contains(wanted, "All") {
		maps.DeleteFunc(attrs, func(k, _ string) bool { return !slices.Contains(wanted, k) })
	}
	return map[string]any{
		"MessageId": m.id, "ReceiptHandle": m.handle, "Body": m.body, "MD5OfBody": checksum(m.body), "Attributes": attrs,
	}
}

// checksum is the MD5 that clients compare a body with.
func checksum(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// sound refuses a body that AWS would refuse.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html (InvalidMessageContents)
func sound(q *queue, body string) *refusal {
	limit, _ := strconv.Atoi(q.attrs["MaximumMessageSize"])
	switch {
	case body == "":
		return refuse(0, "MissingParameter", "The request must contain the parameter MessageBody.")
	case len(body) > limit:
		return refuse(0, "InvalidParameterValue", fmt.Sprintf("One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", limit))
	}
	for _, r := range body {
		if r != '\t' && r != '\n' && r != '\r' && (r < 0x20 || r > 0x10ffff || (r >= 0xd800 && r < 0xe000) || r == 0xfffe || r == 0xffff) {
			return refuse(0, "InvalidMessageContents", "The message contains characters outside the allowed set.")
		}
	}
	return nil
}
