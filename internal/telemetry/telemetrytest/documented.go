// Package telemetrytest holds docs/METRICS.md to the registries of the programs: what
// a program exports stands there with its type, labels and words, and nothing else
// stands there. Rules and boards are then held to that one list. Log is what a test gives
// a program to log to.
//
// It serves tests only and owns nothing.
package telemetrytest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Metric is one metric of the rail as a row of docs/METRICS.md has it. Programs are
// those that export it.
type Metric struct {
	Name, Type, Help string
	Labels, Programs []string
}

// row is the metric as a line of the table.
func (m Metric) row() string {
	labels := make([]string, len(m.Labels))
	for i, l := range m.Labels {
		labels[i] = "`" + l + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |", m.Name, m.Type, strings.Join(labels, ", "), strings.Join(m.Programs, ", "), m.Help)
}

// Root is the folder of the module, found from where a test runs.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, there := os.Stat(filepath.Join(dir, "go.mod")); there == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	t.Fatalf("no go.mod above the test: %v", err)
	return ""
}

// Documented is the table of docs/METRICS.md by name.
func Documented(t testing.TB) map[string]Metric {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), "docs", "METRICS.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Metric{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || !strings.HasPrefix(line, "| `rail_") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		m := Metric{Name: strings.Trim(cells[0], "`"), Type: cells[1], Help: cells[4], Programs: split(cells[3]), Labels: split(strings.ReplaceAll(cells[2], "`", ""))}
		if _, twice := all[m.Name]; twice {
			t.Errorf("docs/METRICS.md has %s twice", m.Name)
		}
		all[m.Name] = m
	}
	return all
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// Hold fails the test for every rail_ metric of the program's registry that
// docs/METRICS.md does not have exactly so, and for every row that names the program
// without a metric behind it.
func Hold(t testing.TB, program string, reg *prometheus.Registry) {
	t.Helper()
	documented, exported := Documented(t), registered(reg)
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		m := exported[name]
		m.Programs = documented[name].Programs
		if !slices.Contains(m.Programs, program) {
			m.Programs = append(slices.Clone(m.Programs), program)
		}
		if got := documented[name].row(); got != m.row() {
			t.Errorf("docs/METRICS.md: the row of %s should be\n%s", name, m.row())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if _, there := exported[name]; !there && slices.Contains(documented[name].Programs, program) {
			t.Errorf("docs/METRICS.md: %s does not export %s", program, name)
		}
	}
}

// A Desc tells what it is only in this form.
var described = regexp.MustCompile(`^Desc\{fqName: "(rail_\w+)", help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{(.*?)\}, variableLabels: \{(.*)\}\}$`)

// registered are the rail's metrics, those that are absent now included.
func registered(reg *prometheus.Registry) map[string]Metric {
	all := map[string]Metric{}
	descs := make(chan *prometheus.Desc)
	go func() { defer close(descs); reg.Describe(descs) }()
	for d := range descs {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			continue
		}
		labels := split(m[4])
		for _, pair := range split(m[3]) {
			if name, _, ok := strings.Cut(pair, "="); ok {
				labels = append(labels, name)
			}
		}
		slices.Sort(labels)
		all[m[1]] = Metric{Name: m[1], Type: "gauge", Help: strings.Trim(m[2], `"`), Labels: slices.Compact(labels)}
	}
	// A histogram has series from its birth, and so has a counter: what has none is a
	// gauge that could not be read.
	families, _ := reg.Gather() // the ledger is away, which is meant: its gauges are missing
	for _, f := range families {
		if m, ours := all[f.GetName()]; ours {
			m.Type = strings.ToLower(dto.MetricType_name[int32(f.GetType())])
			all[f.GetName()] = m
		}
	}
	return all
}
