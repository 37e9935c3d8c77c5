package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"briefrail/internal/authority"
)

// pause is how long nobody could write a scope, drawn to scale, beside what was
// predicted. Everything on it stands in words below it, too.
type pause struct {
	Measured, Predicted, Budget string // "" where there is none
	Grace, Deadline             string
	Live                        bool // it lasts still
	Over                        bool // it was longer than the budget
	Width, Height               int  // of the drawing; 0 where there is nothing to draw
	Bars                        []bar
	Ticks                       []tick
	Parts                       []pausePart
}

// pausePart is what a step took of the pause.
type pausePart struct{ Look, Label, Took string }

const (
	pauseLeft = 110
	pauseLane = 34
)

// pauseText is precise where it is short: a pause is measured in milliseconds.
func pauseText(d *time.Duration) string {
	switch {
	case d == nil:
		return ""
	case *d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(*d)/float64(time.Millisecond))
	case *d < time.Minute:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return span(*d)
}

func newPause(x moments, ch authority.Change) pause {
	p := pause{Measured: pauseText(ch.MeasuredPause), Predicted: pauseText(ch.PredictedPause), Budget: pauseText(&ch.Budget), Grace: pauseText(&ch.Grace), Deadline: pauseText(&ch.Deadline)}
	if ch.ClosedAt == nil {
		return p
	}
	ends, until := pauseEnds(ch)
	if p.Live = until == nil; p.Live {
		until = &x.now
	}
	lasted := until.Sub(*ch.ClosedAt)
	p.Over = lasted > ch.Budget
	p.draw(ch, lasted, ends)
	return p
}

// pauseEnd is the end of one part of the pause.
type pauseEnd struct {
	look, label string
	at          *time.Time
}

// pauseEnds are the ends of the parts in their order, and of the whole; nil while it
// lasts.
func pauseEnds(ch authority.Change) (ends []pauseEnd, until *time.Time) {
	ends = []pauseEnd{{"drain", "drain", ch.DrainedAt}, {"seal", "seal", ch.SealedAt}, {"verify", "verify", ch.VerifiedAt}, {"open", "advance", ch.AdvancedAt}}
	until = ch.AdvancedAt
	if ch.AbortedAt != nil {
		ends, until = append(ends[:3], pauseEnd{"abort", "abort", ch.AbortedAt}), ch.AbortedAt
	}
	return ends, until
}

func (p *pause) draw(ch authority.Change, lasted time.Duration, ends []pauseEnd) {
	longest := max(lasted, time.Microsecond)
	if ch.PredictedPause != nil {
		longest = max(longest, *ch.PredictedPause)
	}
	scale := func(d time.Duration) int {
		return pauseLeft + int(float64(stripWidth-pauseLeft-stripRight)*float64(max(0, d))/float64(longest))
	}
	p.Width, p.Height = stripWidth, pauseLane+24
	var from time.Duration
	for _, e := range ends {
		if e.at != nil {
			to := e.at.Sub(*ch.ClosedAt)
			p.part(scale, e.look, e.label, from, to)
			from = max(from, to)
		}
	}
	if p.Live {
		p.part(scale, "live", "under way", from, lasted)
	}
	if ch.PredictedPause != nil {
		p.bar(scale, "predicted", "", 0, *ch.PredictedPause, pauseLane+pauseLane/2)
		p.Height += pauseLane
	}
	p.clock(scale, longest)
}

// part is one step of the pause, and its bar.
func (p *pause) part(scale func(time.Duration) int, look, label string, from, to time.Duration) {
	took := to - from
	p.Parts = append(p.Parts, pausePart{look, label, pauseText(&took)})
	p.bar(scale, look, label, from, to, pauseLane/2)
}

func (p *pause) bar(scale func(time.Duration) int, look, label string, from, to time.Duration, y int) {
	took := to - from
	b := bar{X: scale(from), Y: y, Look: look, Title: strings.TrimSpace(label+" ") + " " + pauseText(&took)}
	if b.W = max(2, scale(to)-b.X); b.W > letterWidth*len(label)+12 {
		b.Label, b.TextX = label, b.X+6
	}
	p.Bars = append(p.Bars, b)
}

// clock writes the time since the closing below, as far as there is room.
func (p *pause) clock(scale func(time.Duration) int, longest time.Duration) {
	for _, part := range []float64{0, 1, .5, .25, .75} {
		d := time.Duration(part * float64(longest))
		at := scale(d)
		if !slices.ContainsFunc(p.Ticks, func(k tick) bool { return k.X-at < tickSpace && at-k.X < tickSpace }) {
			p.Ticks = append(p.Ticks, tick{at, pauseText(&d)})
		}
	}
}

// Said tells what is drawn to those who do not see it.
func (p pause) Said() string {
	words := []string{}
	for _, part := range p.Parts {
		words = append(words, part.Label+" "+part.Took)
	}
	text := strings.Join(words, ", ")
	if p.Predicted != "" {
		text += "; predicted " + p.Predicted
	}
	return text + "."
}

// Floor is where the lanes end.
func (p pause) Floor() int { return p.Height - 24 }

// LaneLabels are the words before the lanes.
func (p pause) LaneLabels() []lane {
	lanes := []lane{{pauseLane / 2, "measured"}}
	if p.Predicted != "" {
		lanes = append(lanes, lane{pauseLane + pauseLane/2, "predicted"})
	}
	return lanes
}
