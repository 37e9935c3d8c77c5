package awsfake

import (
	"fmt"
	"strconv"
	"time"
)

// Layout is a bus, a rule, a queue and both dead-letter queues, as a user's account
// would have them. Zero fields mean: bus and queue "brief", source "brief.ops",
// visibility 30 s, 5 receives.
type Layout struct {
	Bus        string
	Queue      string
	Source     string // of the events that the rule takes
	Visibility time.Duration
	Receives   int
	FullEvent  bool // the target hands over the whole envelope instead of $.detail
}

// Places is where a Layout was put. The queues are URLs below the fake's own.
type Places struct {
	Bus, Queue, DeadLetters, TargetDeadLetters string
}

// Provision makes a layout. What is there already is made anew. url is the fake's own,
// from Listen.
func (s *Server) Provision(url string, l Layout) Places {
	l = l.defaults()
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := map[string]string{"MessageRetentionPeriod": "1209600"} // 14 days
	dead, undelivered := s.newQueue(l.Queue+"-dead", kept), s.newQueue(l.Queue+"-undelivered", kept)
	b := s.newBus(l.Bus)
	r := &rule{Name: l.Queue, Arn: s.ruleARN(b, l.Queue), EventBusName: b.name, EventPattern: fmt.Sprintf(`{"source":[%q]}`, l.Source), State: "ENABLED"}
	q := s.newQueue(l.Queue, map[string]string{
		"VisibilityTimeout": strconv.Itoa(int(l.Visibility.Seconds())),
		"RedrivePolicy":     fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, dead.arn, l.Receives),
	})
	q.attrs["Policy"] = fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},`+
		`"Action":"sqs:SendMessage","Resource":%q,"Condition":{"ArnEquals":{"aws:SourceArn":%q}}}]}`, q.arn, r.Arn)
	t := target{ID: "queue", Arn: q.arn, InputPath: "$.detail", DeadLetterConfig: &struct{ Arn string }{undelivered.arn}}
	if l.FullEvent {
		t.InputPath = ""
	}
	r.targets = []target{t}
	b.rules[r.Name] = r
	s.buses[b.name] = b
	p := Places{Bus: b.name}
	for _, made := range []struct {
		q  *queue
		at *string
	}{{q, &p.Queue}, {dead, &p.DeadLetters}, {undelivered, &p.TargetDeadLetters}} {
		s.queues[made.q.name] = made.q
		*made.at = url + "/" + s.opts.Account + "/" + made.q.name
	}
	s.wake()
	return p
}

func (l Layout) defaults() Layout {
	if l.Bus == "" {
		l.Bus = "brief"
	}
	if l.Queue == "" {
		l.Queue = "brief"
	}
	if l.Source == "" {
		l.Source = "brief.ops"
	}
	if l.Visibility <= 0 {
		l.Visibility = 30 * time.Second
	}
	if l.Receives <= 0 {
		l.Receives = 5
	}
	return l
}
