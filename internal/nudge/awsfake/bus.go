package awsfake

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

type bus struct {
	name, arn string
	rules     map[string]*rule
}

type rule struct {
	Name         string
	Arn          string
	EventBusName string
	EventPattern string `json:",omitempty"`
	Description  string `json:",omitempty"`
	State        string

	targets []target
}

// target is a target of a rule. Members that the fake does not act on are kept, so
// that a look at them finds them.
type target struct {
	ID               string `json:"Id"`
	Arn              string
	RoleArn          string          `json:",omitempty"`
	Input            string          `json:",omitempty"`
	InputPath        string          `json:",omitempty"`
	InputTransformer json.RawMessage `json:",omitempty"`
	DeadLetterConfig *struct{ Arn string }
	RetryPolicy      json.RawMessage `json:",omitempty"`
}

// newBus makes a bus without rules.
func (s *Server) newBus(name string) *bus {
	return &bus{name: name, arn: fmt.Sprintf("arn:aws:events:%s:%s:event-bus/%s", s.opts.Region, s.opts.Account, name), rules: make(map[string]*rule)}
}

// busOf finds a bus by name or ARN; empty is the default one. s.mu is held.
func (s *Server) busOf(name string) (*bus, *refusal) {
	if name == "" {
		name = "default"
	}
	if b, ok := s.buses[name[strings.LastIndexByte(name, '/')+1:]]; ok {
		return b, nil
	}
	return nil, refuse(0, "ResourceNotFoundException", "Event bus "+name+" does not exist.")
}

func (s *Server) createBus(c *call) (any, *refusal) {
	var in struct{ Name string }
	if r := input(c, &in); r != nil {
		return nil, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.buses[in.Name]; there || in.Name == "" {
		return nil, refuse(0, "ResourceAlreadyExistsException", "Event bus "+in.Name+" already exists.")
	}
	s.buses[in.Name] = s.newBus(in.Name)
	return map[string]string{"EventBusArn": s.buses[in.Name].arn}, nil
}

func (s *Server) describeBus(c *call) (any, *refusal) {
	var in struct{ Name string }
	if r := input(c, &in); r != nil {
		return nil, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, r := s.busOf(in.Name)
	if r != nil {
		return nil, r
	}
	return map[string]string{"Name": b.name, "Arn": b.arn}, nil
}

// deleteBus removes a bus; one that is not there is as good as removed.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_DeleteEventBus.html
func (s *Server) deleteBus(c *call) (any, *refusal) {
	var in struct{ Name string }
	if r := input(c, &in); r != nil {
		return nil, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, r := s.busOf(in.Name)
	switch {
	case r != nil:
		return struct{}{}, nil
	case b.name == "default":
		return nil, refuse(0, "ValidationException", "Cannot delete event bus default.")
	case len(b.rules) > 0:
		return nil, refuse(0, "ValidationException", "Event bus can't be deleted since it has rules.")
	}
	delete(s.buses, b.name)
	return struct{}{}, nil
}

// entry is one entry of PutEvents.
type entry struct {
	EventBusName, Source, DetailType, Detail, TraceHeader string
	Resources                                             []string
	Time                                                  *float64
}

// size is what an entry counts for.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevent-size.html
func (e entry) size() int {
	n := len(e.Source) + len(e.DetailType) + len(e.Detail)
	if e.Time != nil {
		n += 14
	}
	for _, r := range e.Resources {
		n += len(r)
	}
	return n
}

// putEvents takes events, one result an entry at the same index.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html
func (s *Server) putEvents(c *call) (any, *refusal) {
	var in struct{ Entries []entry }
	if r := input(c, &in); r != nil {
		return nil, r
	}
	if r := s.checkEntries(in.Entries); r != nil {
		return nil, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	results, failed := make([]map[string]string, len(in.Entries)), 0
	for i, e := range in.Entries {
		results[i] = s.event(e, c.fault.fail[i], c.fault)
		if results[i]["ErrorCode"] != "" {
			failed++
		} else if c.fault.omit[i] {
			results[i] = map[string]string{}
		}
	}
	if c.fault.zeroCount {
		failed = 0
	}
	if n := c.fault.results; n != nil {
		for len(results) < *n {
			results = append(results, map[string]string{"EventId": newID()})
		}
		results = results[:*n]
	}
	return map[string]any{"FailedEntryCount": failed, "Entries": results}, nil
}

// checkEntries refuses the whole call as AWS would.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html
func (s *Server) checkEntries(entries []entry) *refusal {
	if len(entries) < 1 || len(entries) > 10 {
		return refuse(0, "ValidationException", fmt.Sprintf("1 validation error detected: %d entries, at most 10", len(entries)))
	}
	total := 0
	for _, e := range entries {
		total += e.size()
	}
	if total > s.opts.MaxBytes {
		return refuse(0, "ValidationException", "Total size of the entries in the request is over the limit.")
	}
	return nil
}

// event takes one entry and hands it to the targets. s.mu is held.
func (s *Server) event(e entry, fault entryFault, f Fault) map[string]string {
	if fault.code != "" {
		return map[string]string{"ErrorCode": fault.code, "ErrorMessage": "scripted"}
	}
	if code, text := judge(e); code != "" {
		return map[string]string{"ErrorCode": code, "ErrorMessage": text}
	}
	id := newID()
	s.stats.Events++
	// "PutEvents to a bus that does not exist" answers an EventId like any other.
	b, r := s.busOf(e.EventBusName)
	if r != nil || !s.deliver(b, s.envelope(e, id), f) {
		s.stats.Unmatched++
	}
	return map[string]string{"EventId": id}
}

// judge refuses one entry as AWS would, inside an answer of 200.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsResultEntry.html
func judge(e entry) (code, text string) {
	var object map[string]json.RawMessage
	switch {
	case e.Source == "":
		return "InvalidArgument", "Parameter Source is not valid. Reason: Source is a required argument."
	case e.DetailType == "":
		return "InvalidArgument", "Parameter DetailType is not valid. Reason: DetailType is a required argument."
	case utf8.RuneCountInString(e.DetailType) > 128:
		return "InvalidArgument", "Parameter DetailType is not valid. Reason: DetailType is longer than 128 characters."
	case strings.HasPrefix(e.Source, "aws."):
		return "NotAuthorizedForSourceException", "Not authorized for the source."
	case json.Unmarshal([]byte(e.Detail), &object) != nil || object == nil:
		return "MalformedDetail", "Detail is malformed."
	}
	return "", ""
}

// envelope is the event as rules and targets see it.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-events-structure.html
func (s *Server) envelope(e entry, id string) map[string]any {
	at := s.now()
	if e.Time != nil {
		at = time.UnixMilli(int64(*e.Time * 1000))
	}
	resources := e.Resources
	if resources == nil {
		resources = []string{}
	}
	return map[string]any{
		"version": "0", "id": id, "detail-type": e.DetailType, "source": e.Source, "account": s.opts.Account,
		"time": at.UTC().Format(time.RFC3339), "region": s.opts.Region, "resources": resources, "detail": json.RawMessage(e.Detail),
	}
}

// deliver hands an event to the targets of every rule that takes it. s.mu is held.
func (s *Server) deliver(b *bus, event map[string]any, f Fault) (matched bool) {
	text, err := json.Marshal(event)
	if err != nil {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(b.rules)) {
		r := b.rules[name]
		if r.State != "ENABLED" || !matches(r.EventPattern, text) {
			continue
		}
		matched = true
		for _, t := range r.targets {
			s.handOver(t, text, f)
		}
	}
	return matched
}

// handOver puts an event into a target's queue, or into the target's dead-letter queue
// where there is none.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html
func (s *Server) handOver(t target, event []byte, f Fault) {
	body := string(event)
	if t.Input != "" {
		body = t.Input
	} else if part, ok := pick(event, t.InputPath); ok {
		body = string(part)
	}
	q := s.byARN(t.Arn)
	if q == nil && t.DeadLetterConfig != nil {
		if letters := s.byARN(t.DeadLetterConfig.Arn); letters != nil {
			s.put(letters, newID(), body, 0, false)
		}
	}
	if q != nil {
		_, _ = s.arrive(q, body, q.seconds("DelaySeconds"), f) // a full queue loses it, as EventBridge would in the end
	}
}
