package awsfake

import (
	"container/list"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// queue is a standard queue.
type queue struct {
	name, arn string
	attrs     map[string]string
	created   time.Time
	messages  *list.List // of *message, the oldest first
	byHandle  map[string]*list.Element
	moves     []move
	newest    string // body of the latest arrival
}

// message is visible from visible on; before that it is delayed (never received) or in
// flight.
type message struct {
	id, body string
	handle   string // of the latest receive
	source   string // ARN of the queue that it was redriven from
	sent     time.Time
	visible  time.Time
	first    time.Time
	receives int
}

// redrive is the queue's RedrivePolicy, if it has a sound one.
type redrive struct {
	target string
	max    int
}

// newQueue makes a queue with the defaults of AWS. s.mu is held.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html
func (s *Server) newQueue(name string, attrs map[string]string) *queue {
	q := &queue{
		name: name, arn: fmt.Sprintf("arn:aws:sqs:%s:%s:%s", s.opts.Region, s.opts.Account, name),
		created: s.now(), messages: list.New(), byHandle: make(map[string]*list.Element),
		attrs: map[string]string{
			"VisibilityTimeout": "30", "DelaySeconds": "0", "MessageRetentionPeriod": "345600",
			"ReceiveMessageWaitTimeSeconds": "0", "MaximumMessageSize": "1048576",
		},
	}
	for k, v := range attrs {
		q.attrs[k] = v
	}
	return q
}

// seconds reads an attribute that is a number of seconds.
func (q *queue) seconds(attr string) time.Duration {
	n, _ := strconv.Atoi(q.attrs[attr]) // attributes are checked when they are set
	return time.Duration(n) * time.Second
}

func (q *queue) redrive() (redrive, bool) {
	var p struct {
		Target string          `json:"deadLetterTargetArn"`
		Max    json.RawMessage `json:"maxReceiveCount"`
	}
	if json.Unmarshal([]byte(q.attrs["RedrivePolicy"]), &p) != nil {
		return redrive{}, false
	}
	n, err := strconv.Atoi(strings.Trim(string(p.Max), `"`))
	return redrive{target: p.Target, max: n}, err == nil && n > 0
}

// add appends a message. s.mu is held.
func (q *queue) add(m *message) { q.messages.PushBack(m) }

// remove takes a message out. s.mu is held.
func (q *queue) remove(e *list.Element) *message {
	m, _ := e.Value.(*message) // the list holds nothing else
	delete(q.byHandle, m.handle)
	q.messages.Remove(e)
	return m
}

// take hands out up to n visible messages, moves those that were received too often to
// the dead-letter queue and drops those that are too old. s.mu is held.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
func (s *Server) take(q *queue, n int, visibility time.Duration) (out []*message) {
	now := s.now()
	policy, dead := q.redrive()
	for e := q.messages.Front(); e != nil && len(out) < n; {
		next := e.Next()
		m, _ := e.Value.(*message) // the list holds nothing else
		switch {
		case now.Sub(m.sent) > q.seconds("MessageRetentionPeriod"):
			q.remove(e)
			s.stats.Expired++
		case m.visible.After(now):
		case dead && m.receives >= policy.max:
			s.bury(q, e, policy.target)
		default:
			q.hand(e, now, visibility)
			out = append(out, m)
		}
		e = next
	}
	return out
}

// hand makes one message invisible under a new handle. s.mu is held.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
func (q *queue) hand(e *list.Element, now time.Time, visibility time.Duration) {
	m, _ := e.Value.(*message) // the list holds nothing else
	m.receives++
	if m.first.IsZero() {
		m.first = now
	}
	delete(q.byHandle, m.handle)
	m.handle = newID() + "/" + m.id
	m.visible = now.Add(visibility)
	q.byHandle[m.handle] = e
}

// bury moves a message to a dead-letter queue; without one it stays. s.mu is held.
func (s *Server) bury(q *queue, e *list.Element, arn string) {
	target := s.byARN(arn)
	if target == nil {
		return
	}
	m := q.remove(e)
	m.handle, m.source, m.visible = "", q.arn, s.now()
	target.add(m)
	s.stats.Buried++
	s.wake()
}

// byARN finds a queue. s.mu is held.
func (s *Server) byARN(arn string) *queue {
	return s.queues[arn[strings.LastIndexByte(arn, ':')+1:]]
}

// depth counts messages by state. s.mu is held.
func (q *queue) depth(now time.Time) (visible, inFlight, delayed int) {
	for e := q.messages.Front(); e != nil; e = e.Next() {
		switch m, _ := e.Value.(*message); {
		case !m.visible.After(now):
			visible++
		case m.receives > 0:
			inFlight++
		default:
			delayed++
		}
	}
	return visible, inFlight, delayed
}

// nextChange returns when the first message that is invisible now will be visible.
// s.mu is held.
func (q *queue) nextChange(now time.Time) (time.Duration, bool) {
	var soonest time.Duration
	found := false
	for e := q.messages.Front(); e != nil; e = e.Next() {
		m, _ := e.Value.(*message) // the list holds nothing else
		if d := m.visible.Sub(now); !found || d < soonest {
			soonest, found = d, true
		}
	}
	return max(soonest, time.Millisecond), found
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never returns an error
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
