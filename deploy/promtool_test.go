package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// promtool runs it in the folder of the rules, and skips the test where it is missing.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not in PATH (Debian: package prometheus): rules and boards are read, and not evaluated")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = "prometheus"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRulesAreSound(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", ownRules, postgresRules)
}

// Field reports 5, 12, 18 and 19 are cases among these.
func TestAlertsFireAndAreSilent(t *testing.T) {
	t.Parallel()
	promtool(t, "test", "rules", cases(ownRules), cases(postgresRules))
}

func cases(rules string) string { return strings.TrimSuffix(rules, ".yaml") + ".test.yaml" }

// Each alert has a case in which it fires and one in which it does not.
func TestEveryAlertHasBothCases(t *testing.T) {
	t.Parallel()
	for _, file := range []string{ownRules, postgresRules} {
		var all struct {
			Tests []struct {
				Checks []struct {
					Expr    string
					Samples []any `yaml:"exp_samples"`
				} `yaml:"promql_expr_test"`
			}
		}
		parse(t, filepath.Join("prometheus", cases(file)), yaml.Unmarshal, &all)
		fires, silent := map[string]bool{}, map[string]bool{"RailDeadMansSwitch": true}
		for _, c := range all.Tests {
			for _, check := range c.Checks {
				_, rest, _ := strings.Cut(check.Expr, `alertname="`)
				name, _, _ := strings.Cut(rest, `"`)
				if len(check.Samples) > 0 {
					fires[name] = true
				} else {
					silent[name] = true
				}
			}
		}
		for _, a := range alerts(t, file) {
			if !fires[a.Alert] || !silent[a.Alert] {
				t.Errorf("%s: a case that fires: %v; a silent one: %v", a.Alert, fires[a.Alert], silent[a.Alert])
			}
		}
	}
}

// What a panel asks is PromQL.
func TestBoardsAreSound(t *testing.T) {
	t.Parallel()
	variables := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*")
	var rules []map[string]string
	for uid, b := range boards(t) {
		for _, p := range b.Panels {
			for i, target := range p.Targets {
				name := fmt.Sprintf("%s:%d:%d", strings.ReplaceAll(uid, "-", "_"), p.ID, i)
				rules = append(rules, map[string]string{"record": name, "expr": variables.Replace(target.Expr)})
			}
		}
	}
	slices.SortFunc(rules, func(a, b map[string]string) int { return strings.Compare(a["record"], b["record"]) })
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "boards", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "boards.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}
