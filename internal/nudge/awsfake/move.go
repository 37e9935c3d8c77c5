package awsfake

import (
	"container/list"
	"slices"
)

// move is a message move task.
type move struct {
	TaskHandle                        string `json:",omitempty"`
	Status                            string
	SourceArn                         string
	DestinationArn                    string `json:",omitempty"`
	ApproximateNumberOfMessagesMoved  int
	ApproximateNumberOfMessagesToMove int
	StartedTimestamp                  int64
}

// startMove moves what is visible in a dead-letter queue back to where it came from, or
// to a destination, at once.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html
func (s *Server) startMove(c *call) (any, *refusal) {
	var in struct{ SourceArn, DestinationArn string }
	if r := input(c, &in); r != nil {
		return nil, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byARN(in.SourceArn)
	switch {
	case q == nil:
		return nil, refuse(0, "ResourceNotFoundException", "The source queue does not exist.")
	case !s.takesLetters(q.arn):
		return nil, refuse(0, "InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue.")
	}
	m := move{Status: "COMPLETED", SourceArn: in.SourceArn, DestinationArn: in.DestinationArn, StartedTimestamp: s.now().UnixMilli()}
	for e := q.messages.Front(); e != nil; {
		next := e.Next()
		if s.moveBack(q, e, in.DestinationArn) {
			m.ApproximateNumberOfMessagesMoved++
		}
		e = next
	}
	m.ApproximateNumberOfMessagesToMove = m.ApproximateNumberOfMessagesMoved
	q.moves = append([]move{m}, q.moves...)[:min(len(q.moves)+1, 10)]
	s.stats.Redriven += m.ApproximateNumberOfMessagesMoved
	s.wake()
	return map[string]string{"TaskHandle": newID()}, nil
}

// moveBack moves one message that is visible and whose way back is known. It counts as
// never received. s.mu is held.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
func (s *Server) moveBack(q *queue, e *list.Element, destination string) bool {
	m, _ := e.Value.(*message) // the list holds nothing else
	if destination == "" {
		destination = m.source
	}
	target := s.byARN(destination)
	if target == nil || target == q || m.visible.After(s.now()) {
		return false
	}
	q.remove(e)
	m.handle, m.source, m.receives, m.visible, m.sent = "", "", 0, s.now(), s.now()
	target.add(m)
	return true
}

// takesLetters reports whether any queue redrives to arn. s.mu is held.
func (s *Server) takesLetters(arn string) bool {
	for _, q := range s.queues {
		if p, ok := q.redrive(); ok && p.target == arn {
			return true
		}
	}
	return false
}

// listMoves returns the latest tasks of a queue, the newest first.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ListMessageMoveTasks.html
func (s *Server) listMoves(c *call) (any, *refusal) {
	in := struct {
		SourceArn  string
		MaxResults int
	}{MaxResults: 1}
	if r := input(c, &in); r != nil {
		return nil, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byARN(in.SourceArn)
	if q == nil {
		return nil, refuse(0, "ResourceNotFoundException", "The source queue does not exist.")
	}
	return map[string]any{"Results": slices.Clone(q.moves[:min(len(q.moves), min(max(in.MaxResults, 1), 10))])}, nil
}
