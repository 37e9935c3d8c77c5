package nudge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// redrivePolicy is a queue's RedrivePolicy. AWS gives maxReceiveCount as a number or
// as a string, as it was set.
type redrivePolicy struct {
	Target string
	Max    int
}

func parseRedrive(text string) (redrivePolicy, error) {
	var raw struct {
		Target string          `json:"deadLetterTargetArn"`
		Max    json.RawMessage `json:"maxReceiveCount"`
	}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return redrivePolicy{}, fmt.Errorf("read the redrive policy: %w", err)
	}
	n, err := strconv.Atoi(strings.Trim(string(raw.Max), `"`))
	if err != nil {
		return redrivePolicy{}, fmt.Errorf("read maxReceiveCount: %w", err)
	}
	return redrivePolicy{Target: raw.Target, Max: n}, nil
}

// allowPolicy is a dead-letter queue's RedriveAllowPolicy.
type allowPolicy struct {
	Permission string   `json:"redrivePermission"`
	Sources    []string `json:"sourceQueueArns"`
}

func parseAllow(text string) (p allowPolicy, err error) {
	err = json.Unmarshal([]byte(text), &p)
	return p, err
}

// What a queue policy says about EventBridge and one rule.
const (
	policyNone       = iota
	policyAllows     // for this rule
	policyOpen       // for every rule
	policyUnreadable // more than this reader judges
)

// statement is one statement of a resource policy. Everything may be one string or a
// list of them.
type statement struct {
	Effect       string          `json:"Effect"`
	Principal    json.RawMessage `json:"Principal"`
	NotPrincipal json.RawMessage `json:"NotPrincipal"`
	Action       many            `json:"Action"`
	NotAction    many            `json:"NotAction"`
	Condition    map[string]map[string]many
}

// many is a string or a list of strings, or of the true and false that some write.
type many []string

// UnmarshalJSON implements json.Unmarshaler.
func (m *many) UnmarshalJSON(raw []byte) error {
	if s, ok := textOf(raw); ok {
		*m = many{s}
		return nil
	}
	if s := string(raw); s == "true" || s == "false" {
		*m = many{s}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(m))
}

// mayDeliver judges a queue's policy for one rule. A Deny or a statement of the kinds
// that need AWS's whole logic is not judged.
func mayDeliver(policy, rule string) int {
	if policy == "" {
		return policyNone
	}
	var p struct{ Statement json.RawMessage }
	if json.Unmarshal([]byte(policy), &p) != nil {
		return policyUnreadable
	}
	statements, err := listOf(p.Statement)
	if err != nil {
		return policyUnreadable
	}
	best := policyNone
	for _, s := range statements {
		switch got := s.delivers(rule); {
		case got == policyUnreadable, got == policyAllows && best != policyUnreadable, got == policyOpen && best == policyNone:
			best = got
		}
	}
	return best
}

func listOf(raw json.RawMessage) (list []statement, err error) {
	if len(raw) > 0 && raw[0] == '{' {
		list = make([]statement, 1)
		return list, json.Unmarshal(raw, &list[0])
	}
	err = json.Unmarshal(raw, &list)
	return list, err
}

// delivers judges one statement.
func (s statement) delivers(rule string) int {
	switch {
	case s.NotPrincipal != nil || s.NotAction != nil:
		return policyUnreadable
	case !s.sends() || !s.names("events.amazonaws.com"):
		return policyNone
	case s.Effect != "Allow":
		return policyUnreadable
	}
	limited := false
	for op, keys := range s.Condition {
		for key, values := range keys {
			switch {
			case strings.EqualFold(key, "aws:SourceArn") && isArnOperator(op):
				if limited = true; !slices.ContainsFunc(values, func(v string) bool { return like(v, rule) }) {
					return policyNone
				}
			case strings.EqualFold(key, "aws:SourceAccount"):
				limited = true
			case !strings.EqualFold(key, "aws:SecureTransport"):
				return policyUnreadable
			}
		}
	}
	if !limited {
		return policyOpen
	}
	return policyAllows
}

func (s statement) sends() bool {
	return slices.ContainsFunc(s.Action, func(a string) bool {
		return a == "*" || strings.EqualFold(a, "sqs:*") || strings.EqualFold(a, "sqs:SendMessage")
	})
}

// names reports whether the principal is the service, or everybody.
func (s statement) names(service string) bool {
	if all, ok := textOf(s.Principal); ok {
		return all == "*"
	}
	var p struct{ Service, AWS many }
	if json.Unmarshal(s.Principal, &p) != nil {
		return false
	}
	return slices.Contains(p.Service, service) || slices.Contains(p.AWS, "*")
}

func isArnOperator(op string) bool {
	return slices.Contains([]string{"ArnEquals", "ArnLike", "StringEquals", "StringLike"}, op)
}

// like matches an ARN against a pattern with * for any characters.
func like(pattern, arn string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == arn
	}
	if !strings.HasPrefix(arn, first) {
		return false
	}
	for i := len(first); i <= len(arn); i++ {
		if like(rest, arn[i:]) {
			return true
		}
	}
	return false
}
