package trigger

import (
	"fmt"
	"time"

	"briefrail/internal/outbox"
	"briefrail/internal/rail"
)

// Rule makes one name a trigger fact.
type Rule struct {
	Name     rail.EventName
	Priority rail.Priority
	Quiet    time.Duration // settle time of its demand
}

// Verdict is how a fact was judged, as stored in its receipt.
type Verdict string

// The verdicts.
const (
	Demanded          Verdict = "demanded"
	Ignored           Verdict = "ignored"
	GatedFirmDisabled Verdict = "gated:firm_disabled"
	GatedMatterClosed Verdict = "gated:matter_closed"
)

// Rules is what the gates judge by; made by NewRules and never changed.
type Rules struct {
	byName   map[rail.EventName]Rule
	disabled map[rail.UUID]bool
}

// NewRules refuses a name twice, and the rail's own facts: a landing that demands
// would feed on itself.
func NewRules(rules []Rule, disabledFirms []rail.UUID) (Rules, error) {
	out := Rules{byName: map[rail.EventName]Rule{}, disabled: map[rail.UUID]bool{}}
	for _, r := range rules {
		if _, err := rail.ParseEventName(string(r.Name)); err != nil {
			return Rules{}, fmt.Errorf("trigger rule: %w", err)
		}
		if rail.OwnFact(r.Name) || r.Name == rail.CanaryFact {
			return Rules{}, fmt.Errorf("trigger rule %q: the rail's own facts never trigger by a rule", r.Name)
		}
		if _, twice := out.byName[r.Name]; twice {
			return Rules{}, fmt.Errorf("trigger rule %q is there twice", r.Name)
		}
		out.byName[r.Name] = r
	}
	for _, f := range disabledFirms {
		out.disabled[f] = true
	}
	return out, nil
}

// Judge is the pure part of the gates. A Demanded verdict is final only once the
// matter is known to be open. The rule is meaningful for Demanded only.
func (r Rules) Judge(f outbox.Fact) (Verdict, Rule) {
	if f.Firm == rail.Canary().Firm {
		return judgeCanary(f)
	}
	rule, ok := r.byName[f.Name]
	switch {
	case !ok, f.Matter.IsZero(), rail.OwnFact(f.Name):
		return Ignored, Rule{}
	case r.disabled[f.Firm]:
		return GatedFirmDisabled, Rule{}
	}
	return Demanded, rule
}

func judgeCanary(f outbox.Fact) (Verdict, Rule) {
	if f.Name != rail.CanaryFact || f.Matter.IsZero() {
		return Ignored, Rule{}
	}
	return Demanded, Rule{Name: f.Name, Priority: rail.Standard}
}
