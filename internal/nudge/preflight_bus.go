package nudge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
)

// maxPages bounds what a look reads of one list.
const maxPages = 20

// lookBus looks at the bus, its rules for our source and their targets.
func (p *walk) lookBus(ctx context.Context, q queueFacts) {
	there := p.ask(ctx, CheckBus, p.bus, "create it: PutEvents to a bus that does not exist answers success and delivers nothing", func(ctx context.Context) error {
		_, err := p.events.DescribeEventBus(ctx, &eventbridge.DescribeEventBusInput{Name: &p.bus})
		return err
	})
	if there {
		p.found(CheckBus, OK, p.bus, "it exists", "")
	}
	rules, ok := p.rules(ctx)
	if !ok {
		return
	}
	p.lookRules(rules)
	for _, r := range rules {
		p.lookTargets(ctx, r, q)
	}
	if q.known {
		p.lookPolicy(q, rules)
	}
}

// rules returns the rules of the bus that take events of our source.
func (p *walk) rules(ctx context.Context) (ours []types.Rule, ok bool) {
	in := &eventbridge.ListRulesInput{EventBusName: &p.bus}
	for range maxPages {
		var out *eventbridge.ListRulesOutput
		if !p.ask(ctx, CheckRule, p.bus, "create the bus first", func(ctx context.Context) (err error) {
			out, err = p.events.ListRules(ctx, in)
			return err
		}) {
			return nil, false
		}
		for _, r := range out.Rules {
			if takes(aws.ToString(r.EventPattern), p.source) {
				ours = append(ours, r)
			}
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	return ours, true
}

// takes reports whether an event pattern names our source outright. A pattern without
// source takes everything.
func takes(pattern, source string) bool {
	var p struct {
		Source []json.RawMessage `json:"source"`
	}
	if pattern == "" || json.Unmarshal([]byte(pattern), &p) != nil {
		return false
	}
	if p.Source == nil {
		return true
	}
	return slices.ContainsFunc(p.Source, func(raw json.RawMessage) bool {
		if s, ok := textOf(raw); ok {
			return s == source
		}
		var prefix struct {
			Prefix *string `json:"prefix"`
		}
		return json.Unmarshal(raw, &prefix) == nil && prefix.Prefix != nil && strings.HasPrefix(source, *prefix.Prefix)
	})
}

func (p *walk) lookRules(rules []types.Rule) {
	if len(rules) == 0 {
		p.found(CheckRule, Fail, p.bus, "no rule takes events of source "+p.source, "create the rule: events that no rule takes vanish")
	}
	for _, r := range rules {
		name := aws.ToString(r.Name)
		if r.State == types.RuleStateDisabled {
			p.found(CheckRule, Fail, name, "the rule is disabled", "enable it")
			continue
		}
		p.found(CheckRule, OK, name, "it takes events of source "+p.source, "")
	}
}

// lookTargets looks at the targets of one rule that are our queue, or any queue where
// ours is not known.
func (p *walk) lookTargets(ctx context.Context, r types.Rule, q queueFacts) {
	name := aws.ToString(r.Name)
	var targets []types.Target
	in := &eventbridge.ListTargetsByRuleInput{Rule: r.Name, EventBusName: &p.bus}
	for range maxPages {
		var out *eventbridge.ListTargetsByRuleOutput
		if !p.ask(ctx, CheckTarget, name, "create the rule first", func(ctx context.Context) (err error) {
			out, err = p.events.ListTargetsByRule(ctx, in)
			return err
		}) {
			return
		}
		targets = append(targets, out.Targets...)
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	ours := slices.DeleteFunc(targets, func(t types.Target) bool {
		arn := aws.ToString(t.Arn)
		return !strings.Contains(arn, ":sqs:") || (q.arn != "" && arn != q.arn)
	})
	if len(ours) == 0 {
		p.found(CheckTarget, Fail, name, "no target of the rule is the queue", "add the queue as a target, with InputPath $.detail")
	}
	for _, t := range ours {
		p.lookTarget(ctx, t)
	}
}

// lookTarget judges what one target does to an event.
func (p *walk) lookTarget(ctx context.Context, t types.Target) {
	arn, path := aws.ToString(t.Arn), aws.ToString(t.InputPath)
	switch {
	case t.Input != nil || t.InputTransformer != nil:
		p.found(CheckTarget, Fail, arn, "the target rewrites the event", "remove Input and InputTransformer; set InputPath $.detail")
	case path != "" && path != "$" && path != "$.detail":
		p.found(CheckTarget, Fail, arn, fmt.Sprintf("InputPath %q hands over no nudge", clip(path)), "set InputPath $.detail")
	case t.RoleArn != nil:
		p.found(CheckTarget, Warn, arn, "a role is set on a queue target", "remove it: AWS asks for a queue policy instead, and delivery can fail with a role")
	default:
		p.found(CheckTarget, OK, arn, "it hands the nudge to the queue", "")
	}
	if t.DeadLetterConfig == nil || aws.ToString(t.DeadLetterConfig.Arn) == "" {
		p.found(CheckTargetLetters, Warn, arn, "the target has no dead-letter queue", "set one: what EventBridge cannot hand over for 24 hours is lost without")
		return
	}
	p.lookLetters(ctx, CheckTargetLetters, *t.DeadLetterConfig.Arn, "")
}
