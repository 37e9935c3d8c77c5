package awsfake

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

func (s *Server) putRule(c *call) (any, *refusal) {
	var in rule
	if r := input(c, &in); r != nil {
		return nil, r
	}
	if in.EventPattern != "" && !json.Valid([]byte(in.EventPattern)) {
		return nil, refuse(0, "InvalidEventPatternException", "Event pattern is not valid.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, r := s.busOf(in.EventBusName)
	if r != nil {
		return nil, r
	}
	if old := b.rules[in.Name]; old != nil {
		in.targets = old.targets
	}
	if in.State == "" {
		in.State = "ENABLED"
	}
	in.EventBusName, in.Arn = b.name, s.ruleARN(b, in.Name)
	b.rules[in.Name] = &in
	return map[string]string{"RuleArn": in.Arn}, nil
}

func (s *Server) ruleARN(b *bus, name string) string {
	if b.name == "default" {
		return fmt.Sprintf("arn:aws:events:%s:%s:rule/%s", s.opts.Region, s.opts.Account, name)
	}
	return fmt.Sprintf("arn:aws:events:%s:%s:rule/%s/%s", s.opts.Region, s.opts.Account, b.name, name)
}

// onRule is what calls on one rule begin with; s.mu is held for f.
func onRule[In any](s *Server, c *call, name func(In) (bus, rule string), f func(In, *rule) (any, *refusal)) (any, *refusal) {
	var in In
	if r := input(c, &in); r != nil {
		return nil, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	busName, ruleName := name(in)
	b, r := s.busOf(busName)
	if r != nil {
		return nil, r
	}
	rule, ok := b.rules[ruleName]
	if !ok {
		return nil, refuse(0, "ResourceNotFoundException", "Rule "+ruleName+" does not exist on EventBus "+b.name+".")
	}
	return f(in, rule)
}

type ruleInput struct {
	Name, Rule, EventBusName string
	Targets                  []target
	IDs                      []string `json:"Ids"`
}

func (in ruleInput) named() (string, string)   { return in.EventBusName, in.Name }
func (in ruleInput) pointed() (string, string) { return in.EventBusName, in.Rule }

func (s *Server) describeRule(c *call) (any, *refusal) {
	return onRule(s, c, ruleInput.named, func(_ ruleInput, r *rule) (any, *refusal) { return r, nil })
}

func (s *Server) enableRule(c *call) (any, *refusal) {
	return onRule(s, c, ruleInput.named, func(_ ruleInput, r *rule) (any, *refusal) {
		r.State = "ENABLED"
		return struct{}{}, nil
	})
}

func (s *Server) disableRule(c *call) (any, *refusal) {
	return onRule(s, c, ruleInput.named, func(_ ruleInput, r *rule) (any, *refusal) {
		r.State = "DISABLED"
		return struct{}{}, nil
	})
}

func (s *Server) listRules(c *call) (any, *refusal) {
	var in struct{ EventBusName string }
	if r := input(c, &in); r != nil {
		return nil, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, r := s.busOf(in.EventBusName)
	if r != nil {
		return nil, r
	}
	rules := []*rule{}
	for _, name := range slices.Sorted(maps.Keys(b.rules)) {
		rules = append(rules, b.rules[name])
	}
	return map[string]any{"Rules": rules}, nil
}

// putTargets adds targets, or replaces those of the same id; at most five a rule.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutTargets.html
func (s *Server) putTargets(c *call) (any, *refusal) {
	return onRule(s, c, ruleInput.pointed, func(in ruleInput, r *rule) (any, *refusal) {
		for _, t := range in.Targets {
			if t.InputTransformer != nil {
				return nil, refuse(0, "ValidationException", "the fake has no input transformers")
			}
			r.targets = slices.DeleteFunc(r.targets, func(old target) bool { return old.ID == t.ID })
			if r.targets = append(r.targets, t); len(r.targets) > 5 {
				return nil, refuse(0, "LimitExceededException", "The requested resource exceeds the maximum number allowed.")
			}
		}
		return map[string]any{"FailedEntryCount": 0, "FailedEntries": []any{}}, nil
	})
}

// removeTargets removes targets by id; one that is not there is no failure.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_RemoveTargets.html
func (s *Server) removeTargets(c *call) (any, *refusal) {
	return onRule(s, c, ruleInput.pointed, func(in ruleInput, r *rule) (any, *refusal) {
		r.targets = slices.DeleteFunc(r.targets, func(t target) bool { return slices.Contains(in.IDs, t.ID) })
		return map[string]any{"FailedEntryCount": 0, "FailedEntries": []any{}}, nil
	})
}

// deleteRule removes a rule, whose targets must be gone before.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_DeleteRule.html
func (s *Server) deleteRule(c *call) (any, *refusal) {
	return onRule(s, c, ruleInput.named, func(in ruleInput, r *rule) (any, *refusal) {
		if len(r.targets) > 0 {
			return nil, refuse(0, "ValidationException", "Rule can't be deleted since it has targets.")
		}
		b, refused := s.busOf(in.EventBusName)
		if refused == nil {
			delete(b.rules, r.Name)
		}
		return struct{}{}, refused
	})
}

func (s *Server) listTargets(c *call) (any, *refusal) {
	return onRule(s, c, ruleInput.pointed, func(_ ruleInput, r *rule) (any, *refusal) {
		return map[string]any{"Targets": append([]target{}, r.targets...)}, nil
	})
}
