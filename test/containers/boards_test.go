package containers

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// panel is what of a panel of a board is asked of Prometheus.
type panel struct {
	Type, Title string
	Targets     []struct{ Expr string }
	Panels      []panel
}

// mayBeEmpty are panels whose queries have no answer here, and why.
var mayBeEmpty = map[string]string{
	"Oldest transaction":      "the stack has no postgres_exporter",
	"Age of transaction ids":  "the stack has no postgres_exporter",
	"Dead rows of the ledger": "the stack has no postgres_exporter",
}

// boards asks Prometheus what each panel of both boards asks, of the series that the
// scenes before left. No query may be wrong, and each has an answer; one that ends in a
// comparison is empty while all is well. It says nothing of how Grafana draws them.
func boards(s *stack) {
	files, err := filepath.Glob(filepath.Join(root, "deploy", "grafana", "*.json"))
	if err != nil || len(files) != 2 {
		s.t.Fatalf("boards: %q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		var board panel
		if err := json.Unmarshal(text, &board); err != nil {
			s.t.Fatalf("%s: %v", file, err)
		}
		asked := 0
		for _, p := range flat(board) {
			for _, target := range p.Targets {
				asked++
				if err := s.answers(p.Title, target.Expr); err != nil {
					s.t.Errorf("%s, panel %q: %v: %s", filepath.Base(file), p.Title, err, target.Expr)
				}
			}
		}
		if asked < 20 {
			s.t.Errorf("%s: %d queries", filepath.Base(file), asked)
		}
	}
}

// flat are the panels of a board, those inside of rows among them.
func flat(of panel) []panel {
	found := slices.Clone(of.Panels)
	for _, p := range of.Panels {
		found = append(found, flat(p)...)
	}
	return found
}

// answers evaluates a query as Grafana would with everything selected.
func (s *stack) answers(title, expr string) error {
	ask := strings.NewReplacer("$job", ".+", "$instance", ".+", "$__rate_interval", "15m").Replace(expr)
	if strings.Contains(ask, "$") {
		return fmt.Errorf("a variable that this test does not know")
	}
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := s.prometheus("/api/v1/query?query="+url.QueryEscape(ask), &answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("refused: %s", answer.Error)
	}
	if _, known := mayBeEmpty[title]; len(answer.Data.Result) == 0 && !known && !compares(expr) {
		return fmt.Errorf("no series")
	}
	return nil
}

// compares reports whether a query keeps only what is above nothing, or what fires.
func compares(expr string) bool {
	return strings.HasSuffix(expr, " > 0") || strings.HasPrefix(expr, "ALERTS{")
}

func TestFlatFindsPanelsInRows(t *testing.T) {
	got := flat(panel{Panels: []panel{{Title: "a"}, {Title: "row", Panels: []panel{{Title: "b"}}}}})
	if len(got) != 3 {
		t.Errorf("panels %+v", got)
	}
}
