package awsfake

import (
	"maps"
	"regexp"
	"slices"
	"time"
)

// Chaos is what happens by chance to messages on their way into a queue: each is a
// share from 0 to 1. Drop loses a message after it was accepted; Duplicate delivers it
// twice; Reorder holds it back for up to half a second; Forge adds a counterfeit beside
// it: an id that no ledger has, another matter, or no nudge at all.
type Chaos struct {
	Drop      float64 `json:"drop"`
	Duplicate float64 `json:"duplicate"`
	Reorder   float64 `json:"reorder"`
	Forge     float64 `json:"forge"`
}

// longestHold is how far a message is held back by Reorder.
const longestHold = 500 * time.Millisecond

// SetChaos replaces the shares.
func (s *Server) SetChaos(c Chaos) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chaos = c
}

// Stats counts what happened since the start. Calls is by operation and outcome ("ok",
// an error code, "reset", "hung", "accepted_reset", "accepted_hung", "garbage").
type Stats struct {
	Calls      map[string]map[string]int `json:"calls"`
	Events     int                       `json:"events"`     // accepted by PutEvents
	Unmatched  int                       `json:"unmatched"`  // accepted and handed to nobody
	Arrived    int                       `json:"arrived"`    // put into a queue
	Dropped    int                       `json:"dropped"`    // by script or chance
	Duplicated int                       `json:"duplicated"` // by script or chance
	Reordered  int                       `json:"reordered"`  // by chance
	Forged     int                       `json:"forged"`     // by chance
	Received   int                       `json:"received"`
	Deleted    int                       `json:"deleted"`
	Released   int                       `json:"released"` // visibility changed
	Buried     int                       `json:"buried"`   // moved to a dead-letter queue
	Redriven   int                       `json:"redriven"`
	Expired    int                       `json:"expired"` // older than the queue's retention
}

func newStats() Stats { return Stats{Calls: make(map[string]map[string]int)} }

// Stats returns a copy of the counts.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Calls = make(map[string]map[string]int, len(s.stats.Calls))
	for op, outcomes := range s.stats.Calls {
		out.Calls[op] = maps.Clone(outcomes)
	}
	return out
}

// Calls returns how many calls of an operation were answered or cut, whatever the
// outcome.
func (s *Server) Calls(op string) (n int) {
	for _, count := range s.Stats().Calls[op] {
		n += count
	}
	return n
}

func (s *Server) count(op, outcome string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats.Calls[op] == nil {
		s.stats.Calls[op] = make(map[string]int)
	}
	s.stats.Calls[op][outcome]++
}

// Bodies returns the bodies of all messages of a queue, whatever their state, the
// oldest first.
func (s *Server) Bodies(name string) (bodies []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, ok := s.queues[name]
	if !ok {
		return nil
	}
	for e := q.messages.Front(); e != nil; e = e.Next() {
		m, _ := e.Value.(*message) // the list holds nothing else
		bodies = append(bodies, m.body)
	}
	return bodies
}

// Newest returns the body that came into a queue last, though it may be gone since;
// "" where there was none.
func (s *Server) Newest(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q, ok := s.queues[name]; ok {
		return q.newest
	}
	return ""
}

// Depth counts the messages of a queue by state; zeros where there is no such queue.
func (s *Server) Depth(name string) (visible, inFlight, delayed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q, ok := s.queues[name]; ok {
		return q.depth(s.now())
	}
	return 0, 0, 0
}

// arrive puts one accepted body into a queue, after script and chance had their way.
// s.mu is held.
func (s *Server) arrive(q *queue, body string, delay time.Duration, f Fault) (id string, r *refusal) {
	if q.messages.Len() >= s.opts.MaxMessages {
		return "", refuse(0, "OverLimit", "the fake holds no more messages")
	}
	id = newID()
	if f.drop || s.chance(s.chaos.Drop) {
		s.stats.Dropped++
		return id, nil
	}
	if s.chance(s.chaos.Reorder) {
		delay += time.Duration(s.random.Int64N(int64(longestHold)))
		s.stats.Reordered++
	}
	s.put(q, id, body, delay, f.reorder)
	if f.duplicate || s.chance(s.chaos.Duplicate) {
		s.put(q, id, body, delay, f.reorder)
		s.stats.Duplicated++
	}
	if s.chance(s.chaos.Forge) {
		s.put(q, newID(), s.forge(body), 0, false)
		s.stats.Forged++
	}
	s.wake()
	return id, nil
}

// put appends a message, or puts it before all others. s.mu is held.
func (s *Server) put(q *queue, id, body string, delay time.Duration, first bool) {
	m := &message{id: id, body: body, sent: s.now(), visible: s.now().Add(delay)}
	if first {
		q.messages.PushFront(m)
	} else {
		q.add(m)
	}
	q.newest = body
	s.stats.Arrived++
}

// chance decides by the seed. s.mu is held.
func (s *Server) chance(share float64) bool { return share > 0 && s.random.Float64() < share }

var idField = regexp.MustCompile(`"(event_id|matter_id)":"[0-9a-f-]{36}"`)

// forge makes a counterfeit of a nudge. s.mu is held.
func (s *Server) forge(body string) string {
	switch s.random.IntN(3) {
	case 0:
		return replaceID(body, "event_id")
	case 1:
		return replaceID(body, "matter_id")
	default:
		return `{"v":1,"event_id":"forged"}`
	}
}

// replaceID puts a random id in place of one field's.
func replaceID(body, field string) string {
	return idField.ReplaceAllStringFunc(body, func(m string) string {
		if m[1:len(field)+1] != field {
			return m
		}
		return `"` + field + `":"` + newID() + `"`
	})
}

// queueNames returns the names of all queues in order. s.mu is held.
func (s *Server) queueNames() []string { return slices.Sorted(maps.Keys(s.queues)) }
