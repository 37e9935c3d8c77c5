package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/audit"
	"briefrail/internal/rail"
)

func runningTicket(left time.Duration) ticket {
	return ticket{
		JobRow: audit.JobRow{Status: "running", Requested: 4, Claimed: 4, RunID: rail.UUID{0xab}, Attempts: 1}, worker: "A",
		left: left, lapsed: left == 0,
	}
}

// TestRowsInAPipe: a lease that only ticks is no change; one that is over is.
func TestRowsInAPipe(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &screen{w: &out, width: 80}
	for _, left := range []time.Duration{4e9, 3e9, 2e9, 0, 0} {
		s.row(runningTicket(left))
	}
	want := []string{
		"",
		"  status   requested  claimed  landed  rebuild  run       worker   lease  tries",
		"  running          4        4       0  -        ab000000  A        4.0 s      1",
		"  running          4        4       0  -        ab000000  A         over      1",
		"",
	}
	if diff := cmp.Diff(want, strings.Split(out.String(), "\n")); diff != "" {
		t.Error(diff)
	}
}

// TestRowsOnATerminal: the last row is drawn in place, and a copy of it below an act
// goes when something is written.
func TestRowsOnATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &screen{w: &out, width: 80, live: true}
	for _, left := range []time.Duration{4e9, 3e9} {
		s.row(runningTicket(left))
	}
	s.act("freeze")
	s.row(runningTicket(2e9))
	s.row(runningTicket(1e9))
	s.line("end")
	var got []string
	for line := range strings.Lines(out.String()) {
		shown := line[strings.LastIndex(line, "\r\x1b[K")+1:]
		got = append(got, strings.TrimSpace(strings.TrimPrefix(shown, "\x1b[K")))
	}
	want := []string{
		"", "status   requested  claimed  landed  rebuild  run       worker   lease  tries",
		"running          4        4       0  -        ab000000  A        3.0 s      1", "▸ freeze", "end",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestColourIsOff(t *testing.T) {
	t.Parallel()
	a := &app{stdout: &bytes.Buffer{}}
	if s := a.newScreen(false); s.color || s.live || s.paint(styleBad, "x") != "x" {
		t.Errorf("colour in a pipe: %+v", s)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"a bb", "ccc", "dddddd", "e"}, wrap("a  bb\nccc dddddd e", 5)); diff != "" {
		t.Error(diff)
	}
	if got := count(1, "party") + ", " + count(2, "party") + ", " + count(0, "fact"); got != "1 party, 2 parties, 0 facts" {
		t.Error(got)
	}
	if got := cut("abcdef", 4) + cut("abc", 4); got != "abc…abc" {
		t.Error(got)
	}
	for n, want := range map[int][]int{0: nil, 1: {0}, 2: {0, 1}, 9: {0, 4, 8}} {
		if diff := cmp.Diff(want, spread(n, 3)); diff != "" {
			t.Errorf("spread(%d): %s", n, diff)
		}
	}
}

func TestSumSeries(t *testing.T) {
	t.Parallel()
	text := "# HELP x y\nx_total{write=\"land\"} 2\nx_total{write=\"renew\"} 1\nx_total_more 7\nother 5\n"
	if got, err := sumSeries(strings.NewReader(text), "x_total"); err != nil || got != 3 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := sumSeries(strings.NewReader("x_total many\n"), "x_total"); err == nil {
		t.Error("a value that is no number was taken")
	}
}

func TestListenAddress(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	if got := listenAddress(log); got != "" {
		t.Errorf("no file: %q", got)
	}
	text := "not JSON\n{\"msg\":\"waiting\"}\n{\"msg\":\"started\",\"listen\":\"127.0.0.1:4\"}\n"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := listenAddress(log); got != "127.0.0.1:4" {
		t.Errorf("got %q", got)
	}
}

func TestCleanEnv(t *testing.T) {
	t.Parallel()
	got := cleanEnv([]string{"PATH=/bin", "RAIL_X=1", "BRIEF_Y=2", "PGHOST=far", "AWS_PROFILE=theirs", "RAILS=on"})
	if diff := cmp.Diff([]string{"PATH=/bin", "RAILS=on"}, got); diff != "" {
		t.Error(diff)
	}
}
