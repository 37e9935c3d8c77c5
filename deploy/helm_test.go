package deploy_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const chart = "helm/briefrail"

// cases are values whose manifests are kept in testdata/helm.
func helmCases() []string { return []string{"small", "full"} }

func valuesFile(name string) string { return filepath.Join("testdata", "helm", name+".values.yaml") }

func golden(name string) string { return filepath.Join("testdata", "helm", name+".golden.yaml") }

// helm runs it, and skips the test where it is missing: manifests and values are then
// still checked, as they are kept.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path := helmPath()
	if path == "" {
		t.Skip("helm is neither in PATH nor below .cache/tools (make helm): the kept manifests are checked, and not made anew")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errors.String())
	}
	return string(out), err
}

// helmPath is the helm of PATH, or the one that make helm built.
func helmPath() string {
	if path, err := exec.LookPath("helm"); err == nil {
		return path
	}
	built, _ := filepath.Glob("../.cache/tools/helm@*/helm") // the pattern is well-formed
	if len(built) == 0 {
		return ""
	}
	path, err := filepath.Abs(built[len(built)-1])
	if err != nil {
		return ""
	}
	return path
}

func render(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "rail", chart, "--namespace", "rail", "--kube-version", "1.31.0"}, args...)...)
}

func TestChartIsSound(t *testing.T) {
	t.Parallel()
	for _, name := range helmCases() {
		if out, err := helm(t, "lint", "--strict", "--quiet", chart, "--values", valuesFile(name)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// The kept manifests are what the chart makes. RAIL_TEST_UPDATE=1 writes them anew, and
// beside them of which chart they are.
func TestChartMakesTheKeptManifests(t *testing.T) {
	t.Parallel()
	for _, name := range helmCases() {
		got, err := render(t, "--values", valuesFile(name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if os.Getenv("RAIL_TEST_UPDATE") != "" {
			write(t, golden(name), got)
			continue
		}
		if diff := cmp.Diff(read(t, golden(name)), got); diff != "" {
			t.Errorf("%s (-kept +made; RAIL_TEST_UPDATE=1 keeps it):\n%s", golden(name), diff)
		}
	}
	if os.Getenv("RAIL_TEST_UPDATE") != "" {
		write(t, chartSum, sumOfChart(t))
	}
}

const chartSum = "testdata/helm/chart.sha256"

// Without helm nobody would see that the manifests are those of an older chart.
func TestKeptManifestsAreOfThisChart(t *testing.T) {
	t.Parallel()
	if os.Getenv("RAIL_TEST_UPDATE") == "" && read(t, chartSum) != sumOfChart(t) {
		t.Errorf("the chart or its test values changed since %s was written: RAIL_TEST_UPDATE=1 go test ./deploy, with helm in PATH", chartSum)
	}
}

func sumOfChart(t *testing.T) string {
	t.Helper()
	sum := sha256.New()
	add := func(file string) { fmt.Fprintf(sum, "%s\n%s\n", filepath.ToSlash(file), read(t, file)) }
	err := filepath.WalkDir(chart, func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			add(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range helmCases() {
		add(valuesFile(name))
	}
	return fmt.Sprintf("%x\n", sum.Sum(nil))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What is forgotten or contradicts itself is refused before anything is installed, with
// what to write.
func TestChartRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	whole := []string{"--values", valuesFile("full")}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no builder":        {[]string{"--set", "relay.enabled=false"}, "config.builder.http.url"},
		"no sink":           {[]string{"--set", "config.builder.http.url=http://b/"}, "config.relay.sinks"},
		"a misspelt value":  {append(whole, "--set", "worker.replica=3"), "replica"},
		"a misspelt config": {append(whole, "--set", "config.lease.duratoin=60s"), "duratoin"},
		"three relays":      {append(whole, "--set", "relay.replicas=3"), "replicas"},
		"a DSN in values":   {append(whole, "--set", "config.database.url=postgres://u:p@h/d"), "url"},
		"scaling to zero":   {append(whole, "--set", "keda.minReplicas=0"), "minReplicas"},
		"a grace too long":  {append(whole, "--set", "worker.stopGraceSeconds=600"), "stopGraceSeconds"},
		"two on one port":   {append(whole, "--set", "worker.api.port=9464"), "worker.api.port"},
		"api in config":     {append(whole, "--set", "config.api.listen=:1"), "api"},
		"memory in bytes":   {append(whole, "--set-string", "worker.resources.limits.memory=1e9"), "memory"},
	} {
		if _, err := render(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a word about %s", name, err, c.want)
		}
	}
}

// The chart cannot reach files beside it, so it has copies; they are the very rules.
func TestChartHasTheVeryRules(t *testing.T) {
	t.Parallel()
	for _, file := range []string{ownRules, postgresRules} {
		if diff := cmp.Diff(read(t, filepath.Join("prometheus", file)), read(t, filepath.Join(chart, "rules", file))); diff != "" {
			t.Errorf("cp deploy/prometheus/%[1]s deploy/%[2]s/rules/%[1]s (-prometheus +chart):\n%[3]s", file, chart, diff)
		}
	}
}
