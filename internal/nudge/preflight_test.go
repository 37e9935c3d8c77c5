package nudge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/nudge/nudgetest"
)

// states are the findings in short.
func states(found []nudge.Finding) []string {
	out := make([]string, len(found))
	for i, f := range found {
		out[i] = f.Check + " " + string(f.State)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// allWell is what a sound way shows.
func allWell() []string {
	return []string{"bus ok", "dead_letters ok", "queue ok", "queue_policy ok", "redrive ok", "rule ok", "target ok", "target_dead_letters ok"}
}

// wellBut is allWell with some of it replaced; an empty word takes it out.
func wellBut(words ...string) []string {
	out := allWell()
	for _, w := range words {
		check, state, _ := strings.Cut(w, " ")
		out = slices.DeleteFunc(out, func(s string) bool { return strings.HasPrefix(s, check+" ") })
		if state != "" {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return out
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		spoil func(*testing.T, *stage)
		want  []string
	}{
		{"all is well", func(*testing.T, *stage) {}, allWell()},
		{"no bus: PutEvents would answer success", func(_ *testing.T, s *stage) { s.Bus = "gone" }, wellBut("bus fail", "rule fail", "target", "target_dead_letters", "queue_policy")},
		{"no rule for the source", func(_ *testing.T, s *stage) { s.Source = "other.source" }, wellBut("rule fail", "target", "target_dead_letters", "queue_policy")},
		{"no queue", func(_ *testing.T, s *stage) { s.Queue += "-gone" }, wellBut("queue fail", "queue_policy", "redrive", "dead_letters")},
		{"no policy", set("Policy", ""), wellBut("queue_policy fail")},
		{"a policy for another rule", set("Policy", `{"Statement":{"Effect":"Allow","Principal":{"Service":["events.amazonaws.com"]},"Action":["sqs:*"],"Condition":{"ArnLike":{"aws:SourceArn":"arn:aws:events:*:*:rule/x/*"}}}}`), wellBut("queue_policy fail")},
		{"a policy by pattern", set("Policy", `{"Statement":{"Effect":"Allow","Principal":{"Service":["events.amazonaws.com"]},"Action":["sqs:*"],"Condition":{"ArnLike":{"AWS:SourceArn":"arn:aws:events:*:*:rule/rig-*"},"Bool":{"aws:SecureTransport":true}}}}`), allWell()},
		{"a policy for the world", set("Policy", `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:SendMessage"}]}`), wellBut("queue_policy warn")},
		{"a policy with a deny", set("Policy", `{"Statement":[{"Effect":"Deny","Principal":"*","Action":"sqs:*"}]}`), wellBut("queue_policy unknown")},
		{"a policy of other conditions", set("Policy", `{"Statement":[{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"*","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}}]}`), wellBut("queue_policy unknown")},
		{"a policy for others", set("Policy", `{"Statement":[{"Effect":"Allow","Principal":{"AWS":["arn:aws:iam::1:root"]},"Action":"sqs:SendMessage"}]}`), wellBut("queue_policy fail")},
		{"no redrive", set("RedrivePolicy", ""), wellBut("redrive fail", "dead_letters")},
		{"few receives", func(t *testing.T, s *stage) {
			set("RedrivePolicy", `{"deadLetterTargetArn":"`+s.LettersARN+`","maxReceiveCount":3}`)(t, s)
		}, wellBut("redrive warn")},
		{"no dead-letter queue", set("RedrivePolicy", `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:gone","maxReceiveCount":5}`), wellBut("dead_letters fail")},
		{"short visibility", set("VisibilityTimeout", "5"), wellBut("queue warn")},
		{"the bus may not be read", deny("DescribeEventBus"), wellBut("bus unknown")},
		{"the rules may not be read", deny("ListRules"), wellBut("rule unknown", "target", "target_dead_letters", "queue_policy")},
		{"the targets may not be read", deny("ListTargetsByRule"), wellBut("target unknown", "target_dead_letters")},
		{"the queues may not be read", deny("GetQueueAttributes"), wellBut("queue unknown", "queue_policy", "redrive", "dead_letters", "target_dead_letters unknown")},
		{"the dead letters may not be read", deny("GetQueueUrl"), wellBut("dead_letters unknown", "target_dead_letters unknown")},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, nudgetest.Shape{Receives: 5})
			c.spoil(t, s)
			found, err := s.Bridge(t.Context(), t).Preflight(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, states(found)); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%+v", diff, found)
			}
			for _, f := range found {
				if f.Text == "" || f.Resource == "" || (f.Advice == "") != (f.State == nudge.OK) {
					t.Errorf("a finding that helps nobody: %+v", f)
				}
			}
		})
	}
}

func set(attr, value string) func(*testing.T, *stage) {
	return func(t *testing.T, s *stage) { s.SetQueue(t.Context(), t, attr, value) }
}

func deny(op string) func(*testing.T, *stage) {
	return func(_ *testing.T, s *stage) { s.fake.Always(op, 1, awsfake.Denied()) }
}

// Without a bus only the queue is looked at, and a receiver looks at the same way.
func TestPreflightOfTheOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{Receives: 5})
	found, err := s.Straight(t.Context(), t).Preflight(t.Context())
	if diff := cmp.Diff([]string{"dead_letters ok", "queue ok", "redrive ok"}, states(found)); diff != "" || err != nil {
		t.Errorf("sink of a queue: %v (-want +got):\n%s", err, diff)
	}
	found, err = s.receiver(t).Preflight(t.Context())
	if diff := cmp.Diff(allWell(), states(found)); diff != "" || err != nil {
		t.Errorf("receiver: %v (-want +got):\n%s", err, diff)
	}
	found, err = s.Bridge(t.Context(), t, func(o *nudge.EventBridgeOptions) { o.Queue = "" }).Preflight(t.Context())
	if diff := cmp.Diff([]string{"bus ok", "rule ok", "target ok", "target_dead_letters ok"}, states(found)); diff != "" || err != nil {
		t.Errorf("bus alone: %v (-want +got):\n%s", err, diff)
	}
}

// What does not answer ends the walk with an error, soon.
func TestPreflightWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{})
	s.fake.Always("*", 1, awsfake.Hang())
	s.timeout = time.Second
	start := time.Now()
	found, err := s.receiver(t).Preflight(t.Context())
	if err == nil || len(found) != 1 || found[0].State != nudge.Unknown || time.Since(start) > 20*time.Second {
		t.Errorf("%+v, %v after %s", found, err, time.Since(start))
	}
}
