package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// answer is one line of a probe: what was asked, and nil or what is wrong.
type answer struct {
	name string
	err  error
}

var (
	errDraining   = errors.New("draining")
	errNotStarted = errors.New("not started yet")
)

// livez asks only what this process knows by itself: that it answers, and that
// its loops turn. While it stops, its loops may stand.
func (s *Server) livez(w http.ResponseWriter, r *http.Request) {
	var err error
	if s.opts.Loops != nil && !s.draining.Load() {
		if still := s.opts.Loops.wedged(); len(still) > 0 {
			err = errors.New(strings.Join(still, ", "))
		}
	}
	respond(w, r, []answer{{"loops", err}})
}

// startupz says whether the program has been assembled.
func (s *Server) startupz(w http.ResponseWriter, r *http.Request) {
	respond(w, r, []answer{s.startAnswer()})
}

func (s *Server) startAnswer() answer {
	if !s.started.Load() {
		return answer{"started", errNotStarted}
	}
	return answer{"started", nil}
}

// readyz asks every check, all at once.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	answers := make([]answer, len(s.checks), len(s.checks)+2)
	var wg sync.WaitGroup
	for i, c := range s.checks {
		wg.Go(func() { answers[i] = answer{c.Name, c.result(r.Context())} })
	}
	wg.Wait()
	answers = append(answers, s.startAnswer())
	if s.draining.Load() {
		answers = append(answers, answer{"draining", errDraining})
	}
	respond(w, r, answers)
}

// respond writes 200 or 503; with ?verbose every answer, else the names of what
// is wrong.
func respond(w http.ResponseWriter, r *http.Request, answers []answer) {
	var lines, wrong []string
	for _, a := range answers {
		if a.err != nil {
			wrong = append(wrong, a.name)
			lines = append(lines, "[-] "+a.name+": "+cut(errText(a.err), maxErrText))
		} else {
			lines = append(lines, "[+] "+a.name)
		}
	}
	status, text := http.StatusOK, "ok"
	if len(wrong) > 0 {
		status, text = http.StatusServiceUnavailable, "not ok: "+strings.Join(wrong, ", ")
	}
	if r.URL.Query().Has("verbose") {
		text = strings.Join(append(lines, text), "\n")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}

// gather collects and counts the collectors that failed: a collector reports its
// failure by prometheus.NewInvalidMetric, and its gauges are then absent.
func (s *Server) gather() ([]*dto.MetricFamily, error) {
	families, err := s.opts.Registry.Gather()
	var several prometheus.MultiError
	switch {
	case errors.As(err, &several):
		s.collected.Add(float64(len(several)))
	case err != nil:
		s.collected.Inc()
	}
	return families, err
}

// ProbeURL returns the address under which this machine reaches a listener's
// path; a wildcard host becomes loopback.
func ProbeURL(listen, path string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("address of the admin listener: %w", err)
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return "http://" + net.JoinHostPort(host, port) + path, nil
}

// Healthcheck asks a probe and returns nil when it says yes. It is the check of
// containers that hold no curl; no proxy is used.
func Healthcheck(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*checkLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("health check: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("health check: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxText))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("health check: %s: %s", resp.Status, cut(strings.TrimSpace(string(body)), maxErrText))
	}
	return nil
}
