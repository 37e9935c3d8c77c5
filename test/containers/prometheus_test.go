package containers

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hastyRules is a folder with a copy of the rules whose patience is seconds. Each change
// must still find its words, or the copy would be another set of rules.
func hastyRules(t *testing.T, dir string) string {
	t.Helper()
	rules, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", "rail.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(rules)
	for _, change := range [][2]string{
		{"rail_jobs_oldest_owed_timestamp_seconds[5m]) > 0) > 1800", "rail_jobs_oldest_owed_timestamp_seconds[5m]) > 0) > 12"},
		{"rail_outbox_oldest_pending_timestamp_seconds[5m]) > 0) > 300", "rail_outbox_oldest_pending_timestamp_seconds[5m]) > 0) > 5"},
		{"for: 5m\n", "for: 2s\n"},
		{"for: 3m\n", "for: 2s\n"},
		{"for: 1m\n", "for: 1s\n"},
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("the rules no longer say %q: this copy of them has to follow", change[0])
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	return readable(t, filepath.Join(dir, "rules", "rail.rules.yaml"), text, true)
}

// hastyPrometheus is the configuration of the stack with a scrape a second.
func hastyPrometheus(t *testing.T, dir string) string {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(root, "deploy", "compose", "prometheus.yml"))
	if err != nil || !strings.Contains(string(config), "_interval: 5s") {
		t.Fatalf("no interval of 5s in the configuration: %v", err)
	}
	return readable(t, filepath.Join(dir, "prometheus.yml"), strings.ReplaceAll(string(config), "_interval: 5s", "_interval: 1s"), false)
}

// readable writes a file that other accounts may read, and returns it or its folder.
func readable(t *testing.T, name, text string, folder bool) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // a container's account reads it
		t.Fatal(err)
	}
	if folder {
		return filepath.Dir(name)
	}
	return name
}

// prometheus asks the stack's own for a path of its API.
func (s *stack) prometheus(path string, into any) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.watch+path, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return json.NewDecoder(resp.Body).Decode(into)
}

// value is the only sample of a query; known is false when there is none.
func (s *stack) value(query string) (v float64, known bool) {
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := s.prometheus("/api/v1/query?query="+url.QueryEscape(query), &answer); err != nil || len(answer.Data.Result) != 1 {
		return 0, false
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

// fires reports whether an alert fires now.
func (s *stack) fires(alert string) bool {
	v, known := s.value(`count(ALERTS{alertstate="firing", alertname="` + alert + `"})`)
	return known && v > 0
}

func (s *stack) awaitAlert(alert string) {
	s.t.Helper()
	asked := time.Now()
	eventually(s.t, patience, alert+" fires", func() bool { return s.fires(alert) })
	s.t.Logf("%s fires after %.1f s", alert, time.Since(asked).Seconds())
}

func (s *stack) awaitClear(alert string) {
	s.t.Helper()
	asked := time.Now()
	eventually(s.t, patience, alert+" clears", func() bool { return !s.fires(alert) })
	s.t.Logf("%s clears after %.1f s", alert, time.Since(asked).Seconds())
}
