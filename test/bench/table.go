package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// line is one figure. hand is the same by pgbench, ratio what remains of it;
// asked is what was asked for.
type line struct{ what, rail, hand, ratio, asked string }

type table []line

func (t *table) add(what, rail, hand, ratio, asked string) {
	*t = append(*t, line{what, rail, hand, ratio, asked})
}

func (t table) show(w io.Writer, machine string) error {
	fmt.Fprintln(w, machine)
	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "\trail\tpgbench\tratio\tasked for")
	for _, l := range t {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", l.what, l.rail, l.hand, l.ratio, l.asked)
	}
	return tw.Flush()
}

// The markers between which a document holds the table.
const (
	begin = "<!-- bench: written by the command -->"
	end   = "<!-- bench: end -->"
)

// write puts the table into a document.
func (t table) write(file, machine string) error {
	doc, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	from, to := bytes.Index(doc, []byte(begin)), bytes.Index(doc, []byte(end))
	if from < 0 || to < from {
		return fmt.Errorf("%s has no markers %q and %q", file, begin, end)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n%s\n\n| | rail | pgbench | ratio | asked for |\n|---|---|---|---|---|\n", begin, machine)
	for _, l := range t {
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", l.what, l.rail, l.hand, l.ratio, l.asked)
	}
	return os.WriteFile(file, slices.Concat(doc[:from], []byte(out.String()), doc[to:]), 0o644)
}

// machine says on what the figures were taken.
func machine(postgres string) string {
	cpu, memory := "", ""
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		cpu = field(string(info), "model name")
	}
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb float64
		if _, err := fmt.Sscan(field(string(info), "MemTotal"), &kb); err == nil {
			memory = fmt.Sprintf(", %.0f GB", kb/1e6)
		}
	}
	return fmt.Sprintf("%d cores (%s)%s, %s/%s, PostgreSQL %s, %s; clients and server on the same machine.",
		runtime.NumCPU(), cpu, memory, runtime.GOOS, runtime.GOARCH, strings.Fields(postgres)[0], runtime.Version())
}

func field(text, name string) string {
	for l := range strings.Lines(text) {
		if key, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// quantile sorts values and returns the one at q, from 0 to 1.
func quantile[T int64 | float64 | time.Duration](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[int(math.Round(q*float64(len(values)-1)))]
}

func rate(v float64) string { return fmt.Sprintf("%.0f/s", v) }

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

// takeTurns lets sides take turns, each first as often as the others, and returns
// what each of them made.
func takeTurns(rounds int, sides ...func() (float64, error)) ([][]float64, error) {
	made := make([][]float64, len(sides))
	for i := range rounds {
		for j := range sides {
			side := (i + j) % len(sides)
			v, err := sides[side]()
			if err != nil {
				return nil, err
			}
			made[side] = append(made[side], v)
		}
	}
	return made, nil
}

// pair is what the two sides of a measurement made in their turns.
type pair struct{ rail, hand, ratios []float64 }

func newPair(rail, hand []float64) pair {
	p := pair{rail: slices.Clone(rail), hand: slices.Clone(hand)}
	for i := range rail {
		p.ratios = append(p.ratios, rail[i]/hand[i])
	}
	return p
}

// turns lets the two sides take turns.
func turns(rounds int, rail, hand func() (float64, error)) (pair, error) {
	made, err := takeTurns(rounds, rail, hand)
	if err != nil {
		return pair{}, err
	}
	return newPair(made[0], made[1]), nil
}

func (t *table) addRates(what string, p pair, asked string) {
	t.add(what, rate(quantile(p.rail, .5)), rate(quantile(p.hand, .5)), fmt.Sprintf("%.2f", quantile(p.ratios, .5)), asked)
}
