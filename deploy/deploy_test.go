// Package deploy_test holds what is shipped beside the programs to the programs: alert
// rules and boards to the metrics that are really there, alerts to the runbook and to
// their panels.
package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"briefrail/internal/telemetry/telemetrytest"
)

// Of the rules on PostgreSQL the metrics are postgres_exporter's.
const (
	ownRules      = "rail.rules.yaml"
	postgresRules = "rail-postgres.rules.yaml"
)

type alert struct {
	Alert               string
	Expr                string
	Labels, Annotations map[string]string
}

// alerts are those of one file of rules, in its order.
func alerts(t *testing.T, file string) (all []alert) {
	t.Helper()
	var rules struct{ Groups []struct{ Rules []alert } }
	parse(t, filepath.Join("prometheus", file), yaml.Unmarshal, &rules)
	for _, g := range rules.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no rules", file)
	}
	return all
}

func parse(t *testing.T, file string, unmarshal func([]byte, any) error, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

type panel struct {
	ID      int
	Type    string
	Title   string
	Links   []struct{ Title, URL string }
	Targets []struct{ Expr string }
}

type board struct {
	UID, Timezone string
	Tags          []string
	Panels        []panel
	Links         []struct{ URL string }
	Templating    struct {
		List []struct{ Name, Type string }
	}
}

// boards are all boards by their uid.
func boards(t *testing.T) map[string]board {
	t.Helper()
	files, err := filepath.Glob("grafana/*.json")
	if err != nil || len(files) != 2 {
		t.Fatalf("boards %v, %v", files, err)
	}
	all := map[string]board{}
	for _, f := range files {
		var b board
		parse(t, f, json.Unmarshal, &b)
		all[b.UID] = b
	}
	return all
}

func (b board) panel(id int) (panel, bool) {
	i := slices.IndexFunc(b.Panels, func(p panel) bool { return p.ID == id })
	if i < 0 {
		return panel{}, false
	}
	return b.Panels[i], true
}

// sections of the runbook by their anchors.
func sections(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(telemetrytest.Root(t), "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for part := range strings.SplitSeq("\n"+string(text), "\n## ") {
		title, body, _ := strings.Cut(part, "\n")
		anchor := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")
		all[regexp.MustCompile(`[^a-z0-9-]`).ReplaceAllString(anchor, "")] = body
	}
	return all
}

var linked = regexp.MustCompile(`^\{\{ \$externalLabels\.rail_grafana \}\}/d/([a-z-]+)\?viewPanel=(\d+)$`)

// Alert, panel and runbook lead to each other, and nobody is woken without being told
// what it means and what to do.
func TestEveryAlertLeadsToHelp(t *testing.T) {
	t.Parallel()
	runbook, all := sections(t), boards(t)
	seen := map[string]bool{}
	for _, a := range append(alerts(t, ownRules), alerts(t, postgresRules)...) {
		if seen[a.Alert] {
			t.Errorf("%s is there twice", a.Alert)
		}
		seen[a.Alert] = true
		if !slices.Contains([]string{"critical", "warning", "none"}, a.Labels["severity"]) || a.Labels["service"] != "rail" {
			t.Errorf("%s: labels %v", a.Alert, a.Labels)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s: annotations %v", a.Alert, a.Annotations)
		}
		anchor := strings.ToLower(a.Alert)
		if want := "{{ $externalLabels.rail_docs }}docs/runbook.md#" + anchor; a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %q, want %q", a.Alert, a.Annotations["runbook_url"], want)
		}
		checkSection(t, a.Alert, runbook[anchor])
		m := linked.FindStringSubmatch(a.Annotations["dashboard"])
		if m == nil {
			t.Errorf("%s: dashboard %q", a.Alert, a.Annotations["dashboard"])
			continue
		}
		checkPanel(t, a.Alert, all[m[1]], m[2])
	}
	for anchor := range runbook {
		if strings.HasPrefix(anchor, "rail") && !slices.ContainsFunc(names(seen), func(n string) bool { return strings.EqualFold(n, anchor) }) {
			t.Errorf("docs/runbook.md#%s: there is no such alert", anchor)
		}
	}
}

func names(set map[string]bool) (all []string) {
	for n := range set {
		all = append(all, n)
	}
	return all
}

// checkSection wants the five questions of three in the morning answered.
func checkSection(t *testing.T, alert, body string) {
	t.Helper()
	for _, part := range []string{"**For users:**", "**Look:**", "**Causes:**", "**Do:**", "**Escalate:**"} {
		if !strings.Contains(body, part) {
			t.Errorf("docs/runbook.md: the section of %s has no %s", alert, part)
		}
	}
}

// checkPanel wants the alert's panel to lead to the runbook's section.
func checkPanel(t *testing.T, alert string, b board, id string) {
	t.Helper()
	var n int
	if err := json.Unmarshal([]byte(id), &n); err != nil {
		t.Fatal(err)
	}
	p, ok := b.panel(n)
	if !ok {
		t.Errorf("%s: there is no panel %s on %q", alert, id, b.UID)
		return
	}
	want := "${docs}docs/runbook.md#" + strings.ToLower(alert)
	if !slices.ContainsFunc(p.Links, func(l struct{ Title, URL string }) bool { return l.URL == want }) {
		t.Errorf("%s: panel %d %q of %s does not link to %s", alert, p.ID, p.Title, b.UID, want)
	}
}

var (
	metric   = regexp.MustCompile(`\b(rail_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*[=!]`)
	ofTarget = []string{"job", "instance", "le"}
)

// checkMetrics wants every metric of an expression to be exported, with the labels by
// which it is chosen.
func checkMetrics(t *testing.T, where, expr string, known map[string]telemetrytest.Metric) {
	t.Helper()
	for _, m := range metric.FindAllStringSubmatch(expr, -1) {
		is, ok := known[m[1]]
		if !ok {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				if base, yes := strings.CutSuffix(m[1], part); yes && known[base].Type == "histogram" {
					is, ok = known[base], true
				}
			}
		}
		if !ok {
			t.Errorf("%s: no program exports %s", where, m[1])
		}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(is.Labels, l[1]) && !slices.Contains(ofTarget, l[1]) {
				t.Errorf("%s: %s has no label %s", where, m[1], l[1])
			}
		}
	}
}

// A test of each program holds docs/METRICS.md to what it registers.
func TestRulesAndBoardsNameWhatIsExported(t *testing.T) {
	t.Parallel()
	known := telemetrytest.Documented(t)
	for _, a := range alerts(t, ownRules) {
		checkMetrics(t, a.Alert, a.Expr, known)
	}
	for uid, b := range boards(t) {
		for _, p := range b.Panels {
			for _, target := range p.Targets {
				checkMetrics(t, uid+", "+p.Title, target.Expr, known)
			}
		}
	}
}

// A metric that is neither alarmed nor drawn is explained by nobody.
func TestEveryMetricIsWatched(t *testing.T) {
	t.Parallel()
	var watched strings.Builder
	for _, a := range alerts(t, ownRules) {
		watched.WriteString(a.Expr)
	}
	for _, b := range boards(t) {
		for _, p := range b.Panels {
			for _, target := range p.Targets {
				watched.WriteString(target.Expr)
			}
		}
	}
	for name := range telemetrytest.Documented(t) {
		if !regexp.MustCompile(name + `(_bucket|_sum|_count)?\b`).MatchString(watched.String()) {
			t.Errorf("%s is in no rule and on no board", name)
		}
	}
}

var fixedRange = regexp.MustCompile(`\b(rate|increase|irate|delta)\([^\[]*\[([^\]]*)\]`)

func TestBoardsFollowTheConventions(t *testing.T) {
	t.Parallel()
	for uid, b := range boards(t) {
		if !strings.HasPrefix(uid, "rail-") || !slices.Contains(b.Tags, "rail") || b.Timezone != "utc" || len(b.Links) == 0 {
			t.Errorf("uid %q, tags %v, timezone %q, %d links", uid, b.Tags, b.Timezone, len(b.Links))
		}
		for _, v := range []string{"datasource", "job", "instance"} {
			if !slices.ContainsFunc(b.Templating.List, func(is struct{ Name, Type string }) bool { return is.Name == v }) {
				t.Errorf("%s has no variable %s", uid, v)
			}
		}
		if first := b.Panels[0]; first.Title != "Is any Brief stale right now?" || !strings.Contains(first.Targets[0].Expr, "rail_jobs_oldest_owed_timestamp_seconds") {
			t.Errorf("%s begins with %q", uid, first.Title)
		}
		ids := map[int]bool{}
		for _, p := range b.Panels {
			if ids[p.ID] || (p.Type != "row" && len(p.Targets) == 0) {
				t.Errorf("%s: panel %d %q is there twice, or asks nothing", uid, p.ID, p.Title)
			}
			ids[p.ID] = true
			for _, target := range p.Targets {
				for _, m := range fixedRange.FindAllStringSubmatch(target.Expr, -1) {
					if m[2] != "$__rate_interval" {
						t.Errorf("%s, %s: a range of %s", uid, p.Title, m[2])
					}
				}
			}
		}
	}
}
