package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/config"
	"briefrail/internal/rail"
)

// terraform runs it in a folder, and skips the test where it is missing.
func terraform(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("terraform")
	if err != nil {
		t.Skip("terraform is not in PATH: the module is read, and not validated")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestModuleIsFormatted(t *testing.T) {
	t.Parallel()
	if out, err := terraform(t, "terraform", "fmt", "-check", "-diff", "-recursive"); err != nil {
		t.Errorf("terraform fmt: %v\n%s", err, out)
	}
}

// The provider judges every argument, and the module's own tests (terraform/tests) look
// at what it would make. RAIL_TEST_TERRAFORM_PLUGINS is a folder with the provider, such
// as "terraform providers mirror" makes: it is large, and no test run should fetch it.
func TestModuleIsValid(t *testing.T) {
	t.Parallel()
	plugins := os.Getenv("RAIL_TEST_TERRAFORM_PLUGINS")
	if plugins == "" {
		t.Skip("RAIL_TEST_TERRAFORM_PLUGINS is not set (terraform providers mirror makes such a folder): the module is read, and not validated")
	}
	root := t.TempDir()
	for _, dir := range []string{"terraform", "policies"} {
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	module := filepath.Join(root, "terraform")
	if out, err := terraform(t, module, "init", "-backend=false", "-input=false", "-no-color", "-plugin-dir="+plugins); err != nil {
		t.Fatalf("terraform init: %v\n%s", err, out)
	}
	for _, verb := range []string{"validate", "test"} {
		if out, err := terraform(t, module, verb, "-no-color"); err != nil {
			t.Fatalf("terraform %s: %v\n%s", verb, err, out)
		}
	}
}

var quoted = regexp.MustCompile(`"([^"]+)"`)

// block is the text of one block of a module's file, which ends where its closing brace
// begins a line.
func block(t *testing.T, file, head string) string {
	t.Helper()
	_, rest, ok := strings.Cut(read(t, filepath.Join("terraform", file)), head+" {\n")
	body, _, closed := strings.Cut(rest, "\n}\n")
	if !ok || !closed {
		t.Fatalf("terraform/%s: no block %s", file, head)
	}
	return body
}

// A fact that the rule does not name is not delivered, and the bus says nothing.
func TestRuleTakesEveryFactThatTriggers(t *testing.T) {
	t.Parallel()
	want := []string{string(rail.CanaryFact)}
	for _, r := range defaults(t, config.Worker).Trigger.Rules {
		want = append(want, string(r.Name))
	}
	_, list, _ := strings.Cut(block(t, "variables.tf", `variable "event_names"`), "default = [")
	list, _, _ = strings.Cut(list, "]")
	var got []string
	for _, m := range quoted.FindAllStringSubmatch(list, -1) {
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variable event_names (-trigger.rules +module):\n%s", diff)
	}
	if source := defaults(t, config.Relay).Relay.EventSource; !strings.Contains(block(t, "variables.tf", `variable "event_source"`), `"`+source+`"`) {
		t.Errorf("variable event_source is not %s", source)
	}
}

var placeholder = regexp.MustCompile(`\$\{(\w+)\}`)

// The module fills in every placeholder of every policy, and uses all of them.
func TestModuleFillsThePolicies(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, file := range filesOf(t, "terraform/*.tf") {
		text.WriteString(read(t, file))
	}
	arns, _, _ := strings.Cut(block(t, "policies.tf", "locals"), "\n  }")
	for _, path := range filesOf(t, "policies/*.json") {
		var policy map[string]any
		parse(t, path, json.Unmarshal, &policy)
		for _, m := range placeholder.FindAllStringSubmatch(read(t, path), -1) {
			if !regexp.MustCompile(`(?m)^    ` + m[1] + ` +=`).MatchString(arns) {
				t.Errorf("%s: nobody fills ${%s}", path, m[1])
			}
		}
		role := strings.TrimSuffix(filepath.Base(path), ".json")
		if !strings.Contains(text.String(), "policies/"+role+".json") && !regexp.MustCompile(`(?m)^    `+role+` +=`).MatchString(text.String()) {
			t.Errorf("%s is not used by the module", path)
		}
	}
}

// What wakes somebody leads to the runbook.
func TestAlarmsLeadToTheRunbook(t *testing.T) {
	t.Parallel()
	known := sections(t)
	text := read(t, "terraform/alarms.tf")
	found := regexp.MustCompile(`(?:alarm_description *|text) = "([^"]+)"`).FindAllStringSubmatch(text, -1)
	if len(found) != 4 {
		t.Errorf("%d descriptions", len(found))
	}
	for _, m := range found {
		_, section, _ := strings.Cut(m[1], "docs/runbook.md, ")
		if _, ok := known[strings.ToLower(strings.TrimSuffix(section, "."))]; !ok {
			t.Errorf("%q leads to no section of docs/runbook.md", m[1])
		}
	}
}

// What the module says the programs must be told is what they know.
func TestOutputsAreSettings(t *testing.T) {
	t.Parallel()
	for _, file := range filesOf(t, "terraform/*.tf") {
		assertKnown(t, file, read(t, file))
	}
}
