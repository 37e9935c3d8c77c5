package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/telemetry/telemetrytest"
)

// grant is an action of IAM on one resource, which a policy names by a placeholder.
type grant struct{ Action, Resource string }

// texts is a string or a list of strings, as policies have both.
type texts []string

func (l *texts) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		*l = texts{""}
		return json.Unmarshal(raw, &(*l)[0])
	}
	return json.Unmarshal(raw, (*[]string)(l))
}

type statement struct {
	Sid, Effect      string
	Action, Resource texts
	Principal        map[string]string
	Condition        map[string]map[string]string
}

func statements(t *testing.T, file string) []statement {
	t.Helper()
	var policy struct {
		Version   string
		Statement []statement
	}
	parse(t, filepath.Join("policies", file), json.Unmarshal, &policy)
	if policy.Version != "2012-10-17" || len(policy.Statement) == 0 {
		t.Fatalf("%s: version %q, %d statements", file, policy.Version, len(policy.Statement))
	}
	return policy.Statement
}

// granted is all that a policy allows.
func granted(t *testing.T, file string) map[grant]bool {
	t.Helper()
	all := map[grant]bool{}
	for _, s := range statements(t, file) {
		if s.Effect != "Allow" || s.Principal != nil {
			t.Errorf("%s: %s: effect %s, principal %v", file, s.Sid, s.Effect, s.Principal)
		}
		for _, action := range s.Action {
			for _, resource := range s.Resource {
				all[grant{action, resource}] = true
			}
		}
	}
	return all
}

// besides is what AWS asks of the caller beside the action itself.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html
func besides() map[grant][]grant {
	const dead, queue = "${dead_letters_arn}", "${queue_arn}"
	return map[grant][]grant{
		{"sqs:StartMessageMoveTask", dead}: {
			{"sqs:ReceiveMessage", dead}, {"sqs:DeleteMessage", dead}, {"sqs:GetQueueAttributes", dead}, {"sqs:SendMessage", queue},
		},
	}
}

// Each role's policy allows what its program was seen to call while a fact went the
// whole way and a dead letter went back: nothing is missing, nothing is too much.
func TestPoliciesAreWhatTheProgramsCall(t *testing.T) {
	t.Parallel()
	seen := wholeWay(t)
	for file, calls := range seen.byPolicy {
		needed := maps.Clone(calls)
		for call := range calls {
			for _, more := range besides()[call] {
				needed[more] = true
			}
		}
		if diff := cmp.Diff(needed, granted(t, file)); diff != "" {
			t.Errorf("policies/%s (-the program calls +the policy allows):\n%s", file, diff)
		}
	}
	operations := operationsInCode(t)
	if diff := cmp.Diff(operations, slices.Sorted(maps.Keys(seen.operations))); diff != "" {
		t.Errorf("what the run called is not what internal/nudge can call (-code +run): the run must show a new call before a policy may allow it\n%s", diff)
	}
}

var operationInput = regexp.MustCompile(`\b(?:eventbridge|sqs)\.(\w+)Input\b`)

// operationsInCode are the API operations that internal/nudge, the only package with
// the SDK, has an input for.
func operationsInCode(t *testing.T) []string {
	t.Helper()
	all := map[string]bool{}
	for _, file := range filesOf(t, filepath.Join(telemetrytest.Root(t), "internal", "nudge", "*.go")) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range operationInput.FindAllStringSubmatch(read(t, file), -1) {
			all[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Only ListRules, which AWS does not bind to a resource, is allowed on everything.
func TestPoliciesAreNarrow(t *testing.T) {
	t.Parallel()
	for _, path := range filesOf(t, "policies/*.json") {
		file := filepath.Base(path)
		for _, s := range statements(t, file) {
			for _, action := range s.Action {
				if strings.Contains(action, "*") {
					t.Errorf("%s: %s allows %s", file, s.Sid, action)
				}
			}
			if slices.Contains(s.Resource, "*") && file != "kms.json" && !slices.Equal(s.Action, texts{"events:ListRules"}) {
				t.Errorf("%s: %s allows %v on everything", file, s.Sid, s.Action)
			}
		}
	}
	if c := statements(t, "relay.json")[0].Condition; c["StringEquals"]["events:source"] != "${event_source}" {
		t.Errorf("relay.json: the relay may speak for any source: %v", c)
	}
	for _, file := range []string{"queue.json", "kms.json"} {
		s := statements(t, file)[0]
		if s.Principal["Service"] != "events.amazonaws.com" || s.Condition["ArnEquals"]["aws:SourceArn"] != "${rule_arn}" || s.Condition["StringEquals"]["aws:SourceAccount"] != "${account}" {
			t.Errorf("%s: %+v", file, s)
		}
	}
}

// fill puts values where a policy has placeholders, as Terraform's templatefile does.
func fill(t *testing.T, file string, values map[string]string) string {
	t.Helper()
	text := read(t, filepath.Join("policies", file))
	for name, value := range values {
		text = strings.ReplaceAll(text, "${"+name+"}", value)
	}
	if strings.Contains(text, "${") {
		t.Fatalf("%s has placeholders that nobody fills: %s", file, text)
	}
	return text
}

// The doctor reads the queue policy that we ship as one that lets in our rule alone.
func TestQueuePolicySatisfiesTheDoctor(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "nobody")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "nothing")
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	fake := awsfake.New(awsfake.Options{})
	url, stop, err := fake.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	places := fake.Provision(url, awsfake.Layout{})
	setPolicy(t, url, places.Queue)
	bus, err := nudge.NewEventBridge(t.Context(), nudge.EventBridgeOptions{Bus: places.Bus, Queue: places.Queue, Region: "us-east-1", Endpoint: url})
	if err != nil {
		t.Fatal(err)
	}
	findings, err := bus.Preflight(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(findings, func(f nudge.Finding) bool { return f.Check == nudge.CheckPolicy })
	if i < 0 || findings[i].State != nudge.OK {
		t.Errorf("%+v", findings)
	}
}

// setPolicy gives a queue of the fake our queue policy.
func setPolicy(t *testing.T, url, queue string) {
	t.Helper()
	policy := fill(t, "queue.json", map[string]string{
		"account": "000000000000", "queue_arn": "arn:aws:sqs:us-east-1:000000000000:brief",
		"rule_arn": "arn:aws:events:us-east-1:000000000000:rule/brief/brief",
	})
	post(t, url, "AmazonSQS.SetQueueAttributes", map[string]any{"QueueUrl": queue, "Attributes": map[string]string{"Policy": policy}})
}
