package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const boardsDoc = "../docs/BOARDS.md"

// described is what a board says of itself to those who look at it.
type described struct {
	UID, Title, Description string
	Panels                  []struct {
		Type, Title, Description string
		Links                    []struct{ Title, URL string }
		Targets                  []struct{ Expr string }
	}
}

// docs/BOARDS.md is the boards for those who have no Grafana at hand. RAIL_TEST_UPDATE=1
// writes it anew.
func TestBoardsAreListed(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString(boardsHead)
	for _, file := range []string{"grafana/promise.json", "grafana/machinery.json"} {
		var b described
		parse(t, file, json.Unmarshal, &b)
		list(t, &text, file, b)
	}
	if os.Getenv("RAIL_TEST_UPDATE") != "" {
		write(t, boardsDoc, text.String())
		return
	}
	if read(t, boardsDoc) != text.String() {
		t.Errorf("%s is not what the boards say: RAIL_TEST_UPDATE=1 go test ./deploy -run TestBoardsAreListed writes it", boardsDoc)
	}
}

const boardsHead = `# The boards

Two Grafana boards, in [deploy/grafana](../deploy/grafana). This list is made from their files and a test keeps it so; other tests hold each metric
to what the programs export and each alert to its panel. ` + "`make test-containers`" + ` asks a real Prometheus, which scrapes the running
stack, every query below, and wants an answer without an error and with series. No test runs Grafana: how it draws them is not shown.
`

func list(t *testing.T, text *strings.Builder, file string, b described) {
	t.Helper()
	fmt.Fprintf(text, "\n## %s\n\n%s `%s`.\n", b.Title, b.Description, "deploy/"+file)
	table := "\n| panel | shows | from | alerts |\n|---|---|---|---|\n"
	open := false
	for _, p := range b.Panels {
		if p.Type == "row" {
			fmt.Fprintf(text, "\n### %s\n", p.Title)
			open = false
			continue
		}
		if p.Description == "" {
			t.Errorf("%s: panel %q does not say what it shows", file, p.Title)
		}
		if !open {
			text.WriteString(table)
			open = true
		}
		exprs := make([]string, 0, len(p.Targets))
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
		fmt.Fprintf(text, "| %s | %s | %s | %s |\n", cell(p.Title), cell(p.Description), metricsOf(strings.Join(exprs, " ")), alertsOf(p.Links))
	}
}

func cell(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "|", `\|`), "\n", " ") }

var series = regexp.MustCompile(`\b(?:rail_|pg_)\w+|\bup\b|\bALERTS\b`)

func metricsOf(expr string) string {
	found := map[string]bool{}
	for _, m := range series.FindAllString(expr, -1) {
		found["`"+strings.TrimSuffix(m, "_bucket")+"`"] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), ", ")
}

func alertsOf(links []struct{ Title, URL string }) string {
	var found []string
	for _, l := range links {
		if name, ok := strings.CutPrefix(l.Title, "Runbook: "); ok {
			_, anchor, _ := strings.Cut(l.URL, "#")
			found = append(found, fmt.Sprintf("[%s](runbook.md#%s)", name, anchor))
		}
	}
	return strings.Join(found, ", ")
}
