package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// table is what the runs come to.
type table struct {
	lines [][]string
	notes []string
}

var heads = []string{"workers/faults", "", "states", "transitions", "seconds", "states/s", "bytes/state", "Go is faster"} // constant

// Fewer states than fewStates take no time beside the start of the program, and
// manyStates are enough for the size of one to show.
const (
	fewStates  = 1000
	manyStates = 10_000
)

// fill puts the runs into lines, and the growth from 2 workers and 2 faults to the last
// bound.
func (t *table) fill(p plan, peers []*peer) {
	for _, b := range p.bounds {
		for _, q := range peers {
			if line := q.line(b, peers[0]); line != nil {
				t.lines = append(t.lines, line)
			}
			if q.stopped == b {
				t.notes = append(t.notes, fmt.Sprintf("%s was stopped at %v after %v.", q.name, b, p.limit))
			}
		}
	}
	small, large := bound{2, 2}, p.bounds[len(p.bounds)-1]
	for _, q := range peers {
		from, to := q.least(small), q.least(large)
		if from == nil || to == nil || small == large || from.seconds <= 0 {
			continue
		}
		t.lines = append(t.lines, []string{
			fmt.Sprintf("%v → %v", small, large), q.name,
			fmt.Sprintf("x%.0f", float64(to.states)/float64(from.states)),
			fmt.Sprintf("x%.0f", float64(to.transitions)/float64(from.transitions)),
			fmt.Sprintf("x%.0f", to.seconds/from.seconds),
			fmt.Sprintf("x%.2f", float64(to.states)/float64(from.states)/(to.seconds/from.seconds)), "", "",
		})
	}
}

// line is one peer at one bound, nil where it did not run.
func (q *peer) line(b bound, first *peer) []string {
	r := q.least(b)
	if r == nil {
		return nil
	}
	line := []string{b.String(), q.name, fmt.Sprint(r.states), fmt.Sprint(r.transitions), "", "", "", ""}
	if r.states < fewStates || r.seconds <= 0 {
		return line
	}
	line[4], line[5] = fmt.Sprintf("%.4f", r.seconds), fmt.Sprintf("%.0f", float64(r.states)/r.seconds)
	if r.states >= manyStates {
		line[6] = fmt.Sprintf("%.0f", r.resident/float64(r.states))
	}
	if f := first.least(b); q != first && f != nil && f.seconds > 0 {
		line[7] = fmt.Sprintf("x%.1f", r.seconds/f.seconds)
	}
	return line
}

// least is the least of the runs at a bound, less the least of those that are the
// start of the program and little else; nil where there are none.
func (q *peer) least(b bound) *result {
	if len(q.runs[b]) == 0 || len(q.runs[smallest]) == 0 {
		return nil
	}
	r, start := least(q.runs[b]), least(q.runs[smallest])
	r.seconds -= start.seconds
	r.resident -= start.resident
	return &r
}

// least takes the least of each figure.
func least(runs []result) result {
	r := runs[0]
	for _, other := range runs {
		r.seconds, r.resident = min(r.seconds, other.seconds), min(r.resident, other.resident)
	}
	return r
}

func (t *table) show(w io.Writer) error {
	fmt.Fprintln(w, machine())
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, strings.Join(heads, "\t")+"\t")
	for _, l := range t.lines {
		fmt.Fprintln(tw, strings.Join(l, "\t")+"\t")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, n := range t.notes {
		fmt.Fprintln(w, n)
	}
	return nil
}

// The markers between which a document holds the table.
const (
	begin = "<!-- peers: written by the command -->"
	end   = "<!-- peers: end -->"
)

// write puts the table into a document.
func (t *table) write(file string) error {
	doc, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	from, to := bytes.Index(doc, []byte(begin)), bytes.Index(doc, []byte(end))
	if from < 0 || to < from {
		return fmt.Errorf("%s has no markers %q and %q", file, begin, end)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n%s\n\n| %s |\n|%s\n", begin, machine(), strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	for _, l := range t.lines {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(l, " | "))
	}
	for _, n := range t.notes {
		fmt.Fprintf(&out, "\n%s\n", n)
	}
	return os.WriteFile(file, slices.Concat(doc[:from], []byte(out.String()), doc[to:]), 0o644)
}

// machine says on what the figures were taken.
func machine() string {
	cpu := "unknown"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for l := range strings.Lines(string(info)) {
			if key, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(key) == "model name" {
				cpu = strings.TrimSpace(value)
			}
		}
	}
	return fmt.Sprintf("One core of %s, %s/%s, %s; seconds are those of the core, and not of its wait for it.",
		cpu, runtime.GOOS, runtime.GOARCH, runtime.Version())
}
