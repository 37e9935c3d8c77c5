package console

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"briefrail/internal/audit"
)

// strip is a matter's timeline, drawn: lanes of bars and marks on one axis of time.
// Everything on it stands in the table below it, too.
type strip struct {
	Width, Height int
	Day           string // of the first instant
	Lanes         []lane
	Bars          []bar
	Marks         []mark
	Threads       []thread
	Ticks         []tick
	Floor         int // where the lanes end
}

// lane is a line of its own. Y is its middle.
type lane struct {
	Y     int
	Label string
}

// bar is a run, or a lease.
type bar struct {
	X, Y, W     int
	Look, Label string
	Title       string
	TextX       int
}

// mark is an instant.
type mark struct {
	X, Y  int
	Look  string // fact, act, landing, refusal, pause
	Title string
	Label string // beside it, where it must not be overlooked
	End   bool   // the label stands before it
}

// thread joins the end of a run with what its worker tried later.
type thread struct{ X1, X2, Y int }

type tick struct {
	X     int
	Label string
}

const (
	stripWidth  = 940
	stripLeft   = 170
	stripRight  = 44
	laneHeight  = 30
	drawnRuns   = 8
	tickSpace   = 92
	labelSpace  = 260 // what a label beside a mark needs
	letterWidth = 7
)

// newStrip draws the latest runs, and what happened from a little before them.
func newStrip(e audit.Explanation, runs []audit.RunRow) strip {
	runs = slices.Clone(runs[:min(len(runs), drawnRuns)])
	slices.Reverse(runs)
	entries := e.Timeline
	if len(runs) > 0 && len(entries) > 40 {
		from := runs[0].StartedAt.Add(-time.Hour)
		entries = slices.DeleteFunc(slices.Clone(entries), func(n audit.Entry) bool { return n.At.Before(from) })
	}
	d := drawing{strip: strip{Width: stripWidth}, axis: newAxis(instants(e, entries, runs)), now: e.At}
	if len(entries) == 0 {
		return strip{}
	}
	d.lane("facts and demand", func(y int) { d.entries(y, entries, audit.KindFact, audit.KindReceipt) })
	d.lane("operators", func(y int) { d.entries(y, entries, audit.KindAct, audit.KindPause) })
	for _, r := range runs {
		d.lane(fmt.Sprintf("token %d · %s", r.Generation, clip(11, r.Worker)), func(y int) { d.run(y, r, e.Job) })
	}
	d.lane("frames", func(y int) { d.entries(y, entries, audit.KindFrame) })
	d.Floor = laneHeight * len(d.Lanes)
	d.Height = d.Floor + 34
	d.Day = entries[0].At.UTC().Format("2006-01-02")
	d.ticks()
	return d.strip
}

// instants is every instant that is drawn, in order.
func instants(e audit.Explanation, entries []audit.Entry, runs []audit.RunRow) []time.Time {
	out := []time.Time{}
	for _, n := range entries {
		out = append(out, n.At)
	}
	for _, r := range runs {
		out = append(out, r.StartedAt)
		for _, t := range []*time.Time{r.FinishedAt, r.LateWriteAt} {
			if t != nil {
				out = append(out, *t)
			}
		}
	}
	if j := e.Job; j != nil && j.Status == "running" {
		out = append(out, e.At, *j.LeaseExpiresAt)
	}
	slices.SortFunc(out, time.Time.Compare)
	return slices.CompactFunc(out, time.Time.Equal)
}

// axis puts instants on a line. Seconds of a build and days of rest stand on the
// same one, so each gap is as wide as the logarithm of its length: the order is
// exact, and what is longer is drawn longer.
type axis struct {
	at []time.Time
	x  []float64
}

func newAxis(at []time.Time) axis {
	a := axis{at: at, x: make([]float64, len(at))}
	for i := 1; i < len(at); i++ {
		a.x[i] = a.x[i-1] + .15 + math.Log1p(at[i].Sub(at[i-1]).Seconds()/.2)
	}
	if n := len(at); n > 1 {
		scale := (stripWidth - stripLeft - stripRight) / a.x[n-1]
		for i := range a.x {
			a.x[i] *= scale
		}
	}
	return a
}

// of is where an instant stands; one that is not on the axis stands with the one
// before it.
func (a axis) of(t time.Time) int {
	i, found := slices.BinarySearchFunc(a.at, t, time.Time.Compare)
	if !found {
		i = max(0, i-1)
	}
	if len(a.x) == 0 {
		return stripLeft
	}
	return stripLeft + int(a.x[min(i, len(a.x)-1)])
}

// drawing is a strip on its way.
type drawing struct {
	strip
	axis axis
	now  time.Time
}

func (d *drawing) lane(label string, draw func(y int)) {
	y := laneHeight*len(d.Lanes) + laneHeight/2
	d.Lanes = append(d.Lanes, lane{y, label})
	draw(y)
}

func (d *drawing) entries(y int, entries []audit.Entry, kinds ...audit.Kind) {
	for _, n := range entries {
		if !slices.Contains(kinds, n.Kind) {
			continue
		}
		look := string(n.Kind)
		if n.Kind == audit.KindReceipt {
			look = "decided"
			if n.Outcome == "demanded" {
				look = "demand"
			}
		}
		d.Marks = append(d.Marks, mark{X: d.axis.of(n.At), Y: y, Look: look, Title: titleOf(n.At, n.Text)})
	}
}

// run draws an attempt: a bar from its claim to its end; of a live one the lease
// behind it; and of a zombie what it tried when it woke.
func (d *drawing) run(y int, r audit.RunRow, j *audit.JobRow) {
	from := d.axis.of(r.StartedAt)
	end := d.now
	if r.FinishedAt != nil {
		end = *r.FinishedAt
	}
	to := max(d.axis.of(end), from+4)
	if j != nil && j.RunID == r.RunID && j.LeaseExpiresAt != nil {
		lease := d.axis.of(*j.LeaseExpiresAt)
		d.Bars = append(d.Bars, bar{X: from, Y: y, W: max(lease-from, 4), Look: "lease", Title: titleOf(*j.LeaseExpiresAt, "the lease ends, unless it is renewed")})
	}
	d.Bars = append(d.Bars, bar{
		X: from, Y: y, W: to - from, Look: r.Outcome, Label: said(r.Outcome), TextX: labelAt(from, to, said(r.Outcome), r.LateWriteAt != nil),
		Title: titleOf(r.StartedAt, fmt.Sprintf("token %d claimed by %s, %s after %s", r.Generation, r.Worker, said(r.Outcome), span(end.Sub(r.StartedAt)))),
	})
	if r.LateWriteAt == nil {
		return
	}
	late := d.axis.of(*r.LateWriteAt)
	d.Threads = append(d.Threads, thread{to, late, y})
	d.Marks = append(d.Marks, mark{
		X: late, Y: y, Look: "refusal", Label: "woke, wrote: refused", End: late > stripWidth-labelSpace/2-stripRight,
		Title: titleOf(*r.LateWriteAt, fmt.Sprintf("%s woke and tried to write with token %d: refused, nothing was written", r.Worker, r.Generation)),
	})
}

// labelAt is where a bar's word begins: inside where it fits, else behind it, or
// before it where something else stands behind.
func labelAt(from, to int, word string, threaded bool) int {
	width := letterWidth * len(word)
	switch {
	case to-from > width+8:
		return from + 6
	case !threaded && to+6+width < stripWidth:
		return to + 6
	}
	return max(stripLeft, from-width-4)
}

// said is an outcome in words.
func said(outcome string) string {
	switch outcome {
	case "running":
		return "building"
	case "expired":
		return "lost its lease"
	case "released":
		return "handed back"
	}
	return outcome
}

func titleOf(t time.Time, text string) string {
	return t.UTC().Format("15:04:05.000") + " " + clip(300, text)
}

// ticks are the clock under the axis: where bars and what was refused begin and end,
// as far as there is room.
func (d *drawing) ticks() {
	first, last, layout := d.axis.at[0], d.axis.at[len(d.axis.at)-1], "15:04:05"
	if last.Sub(first) < 10*time.Second {
		layout = "15:04:05.000" // or all ticks would read alike
	}
	for _, t := range append([]time.Time{last}, d.axis.at...) {
		x := d.axis.of(t)
		if !slices.ContainsFunc(d.Ticks, func(k tick) bool { return k.X-x < tickSpace && x-k.X < tickSpace }) {
			d.Ticks = append(d.Ticks, tick{x, t.UTC().Format(layout)})
		}
	}
}

// Said tells what is drawn to those who do not see it.
func (s strip) Said() string {
	refused := 0
	for _, m := range s.Marks {
		if m.Look == "refusal" {
			refused++
		}
	}
	words := []string{}
	for _, b := range s.Bars {
		if b.Look != "lease" {
			words = append(words, b.Title)
		}
	}
	return fmt.Sprintf("%s. %s. The table below holds every event.",
		strings.Join(words, "; "), plural(int64(refused), "late write was refused", "late writes were refused"))
}
