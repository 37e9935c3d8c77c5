package trigger_test

import (
	"strings"
	"testing"
	"time"

	"briefrail/internal/outbox"
	"briefrail/internal/rail"
	"briefrail/internal/trigger"
)

func uploadRule() trigger.Rule {
	return trigger.Rule{Name: "document.uploaded", Priority: rail.Standard, Quiet: time.Second}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	disabled := rail.NewUUID()
	rules, err := trigger.NewRules([]trigger.Rule{uploadRule()}, []rail.UUID{disabled})
	if err != nil {
		t.Fatal(err)
	}
	firm, matter := rail.NewUUID(), rail.NewUUID()
	for name, c := range map[string]struct {
		fact outbox.Fact
		want trigger.Verdict
	}{
		"a trigger fact":              {outbox.Fact{Firm: firm, Matter: matter, Name: "document.uploaded"}, trigger.Demanded},
		"another name":                {outbox.Fact{Firm: firm, Matter: matter, Name: "document.viewed"}, trigger.Ignored},
		"no matter":                   {outbox.Fact{Firm: firm, Name: "document.uploaded"}, trigger.Ignored},
		"a landing feeds nothing":     {outbox.Fact{Firm: firm, Matter: matter, Name: rail.BriefLanded}, trigger.Ignored},
		"a parking feeds nothing":     {outbox.Fact{Firm: firm, Matter: matter, Name: rail.BriefParked}, trigger.Ignored},
		"a disabled firm":             {outbox.Fact{Firm: disabled, Matter: matter, Name: "document.uploaded"}, trigger.GatedFirmDisabled},
		"the canary's own fact":       {outbox.Fact{Firm: rail.Canary().Firm, Matter: rail.Canary().Matter, Name: rail.CanaryFact}, trigger.Demanded},
		"the canary's fact elsewhere": {outbox.Fact{Firm: firm, Matter: matter, Name: rail.CanaryFact}, trigger.Ignored},
		"the canary lands":            {outbox.Fact{Firm: rail.Canary().Firm, Matter: rail.Canary().Matter, Name: rail.BriefLanded}, trigger.Ignored},
	} {
		if got, _ := rules.Judge(c.fact); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestRulesThatFeedOnThemselvesAreRefused(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]trigger.Rule{
		"own fact":   {{Name: rail.BriefLanded}},
		"twice":      {uploadRule(), uploadRule()},
		"bad name":   {{Name: "Document.Uploaded"}},
		"the canary": {{Name: rail.CanaryFact}},
	} {
		if _, err := trigger.NewRules(rules, nil); err == nil || !strings.Contains(err.Error(), "trigger rule") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
