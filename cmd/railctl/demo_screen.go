package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// screen is where the story is told. On a terminal its last row may be alive: it is
// drawn again in place until something else is written. In a pipe every change is
// a line of its own.
type screen struct {
	w       io.Writer
	live    bool // rows are drawn in place, and the reader gets pauses
	color   bool
	width   int
	header  bool   // the table's head stands above what comes next
	drawn   bool   // the last row stands without its line end
	copied  bool   // that row is the one above an act once more, and goes when it is done
	last    ticket // as it was drawn
	before  ticket // the row that last was a change of
	checked int
	failed  int
}

func (a *app) newScreen(plain bool) *screen {
	s := &screen{w: a.stdout, width: 80}
	f, ok := a.stdout.(*os.File)
	if !ok || !isTerminal(f) {
		return s
	}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		s.width = w
	}
	s.live = !plain && a.lookup("TERM") != "dumb"
	s.color = s.live && a.lookup("NO_COLOR") == ""
	return s
}

// style is an SGR parameter; empty is plain text.
type style string

const (
	styleBold  style = "1"
	styleDim   style = "2"
	styleBad   style = "1;31"
	styleGood  style = "1;32"
	styleWait  style = "33"
	styleWork  style = "36"
	styleQuiet style = "32"
)

func (s *screen) paint(st style, text string) string {
	if !s.color || st == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

// line writes one line below whatever stands there.
func (s *screen) line(format string, args ...any) {
	s.settle()
	fmt.Fprintf(s.w, format+"\n", args...)
}

// settle leaves a live row as it is; the next thing is written below it, or over it
// where it says nothing new.
func (s *screen) settle() {
	switch {
	case s.drawn && s.copied:
		s.clear()
	case s.drawn:
		fmt.Fprintln(s.w)
	}
	s.drawn = false
}

// breakOff leaves the table before an error is written.
func (s *screen) breakOff() { s.settle(); s.line("") }

// status shows what is going on until the next line takes its place; nothing in a
// pipe.
func (s *screen) status(format string, args ...any) {
	if s.live {
		fmt.Fprintf(s.w, "\r\x1b[K  %s ", s.paint(styleDim, cut(fmt.Sprintf(format, args...)+" …", s.width-4)))
	}
}

func (s *screen) clear() {
	if s.live {
		fmt.Fprint(s.w, "\r\x1b[K")
	}
}

// title begins a part of the story.
func (s *screen) title(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.settle()
	s.line("")
	s.line("%s %s", s.paint(styleBold, text), s.paint(styleDim, strings.Repeat("─", max(2, min(s.width, 100)-2-utf8.RuneCountInString(text)))))
	s.header = false
}

// fact is one labelled line of the beginning.
func (s *screen) fact(label, format string, args ...any) {
	s.clear()
	first := fmt.Sprintf("  %-11s", label)
	for _, l := range wrap(fmt.Sprintf(format, args...), s.text()-len(first)) {
		s.line("%s%s", first, l)
		first = strings.Repeat(" ", len(first))
	}
}

// tell writes sentences as a paragraph.
func (s *screen) tell(format string, args ...any) {
	for _, l := range wrap(fmt.Sprintf(format, args...), s.text()-2) {
		s.line("  %s", l)
	}
}

// act is something that the demo does now, in the middle of the table.
func (s *screen) act(format string, args ...any) {
	mark := "▸ "
	for _, l := range wrap(fmt.Sprintf(format, args...), s.text()-4) {
		s.line("  %s", s.paint(styleBold, mark+l))
		mark = "  "
	}
}

// note explains the row above it.
func (s *screen) note(format string, args ...any) {
	mark := "↑ "
	for _, l := range wrap(fmt.Sprintf(format, args...), s.text()-6) {
		s.line("    %s", s.paint(styleDim, mark+l))
		mark = "  "
	}
}

func (s *screen) warn(format string, args ...any) {
	s.clear()
	s.line("  %s", s.paint(styleWait, "! "+oneLine(fmt.Sprintf(format, args...))))
}

// check says whether something held, and counts.
func (s *screen) check(held bool, format string, args ...any) {
	mark, st := "✓", styleGood
	s.checked++
	if !held {
		s.failed++
		mark, st = "✗", styleBad
	}
	first := s.paint(st, mark)
	for _, l := range wrap(fmt.Sprintf(format, args...), s.text()-4) {
		s.line("  %s %s", first, l)
		first = " "
	}
}

// text is how wide a paragraph may be: long lines are hard to read.
func (s *screen) text() int { return max(60, min(s.width, 100)) }

// row shows the ticket: a new line when it has changed, else the old one in place.
func (s *screen) row(t ticket) {
	s.head()
	changed := t.shown() != s.last.shown()
	if changed {
		s.settle()
		if s.before = s.last; s.before.Requested == 0 {
			s.before = t // the first row of a table is no change
		}
		s.last = t
	}
	switch {
	case s.live:
		s.copied = !changed && (s.copied || !s.drawn)
		fmt.Fprint(s.w, "\r\x1b[K  "+s.drawRow(t))
		s.drawn = true
	case changed:
		s.line("  %s", s.drawRow(t))
	}
}

// head writes the head of the table once in a part of the story.
func (s *screen) head() {
	if s.header {
		return
	}
	s.line("")
	s.line("  %s", s.paint(styleDim, ticketHead()))
	s.header, s.last = true, ticket{}
}

// drawRow paints a row; what the row before had otherwise is bold.
func (s *screen) drawRow(t ticket) string {
	now, before := t.cells(), s.before.cells()
	out := make([]string, len(now))
	for i, c := range now {
		var st style
		switch {
		case c == "-":
			st = styleDim
		case c != before[i] && i != 7: // the lease changes all the time
			st = styleBold
		}
		out[i] = s.paint(st, padded(i, c))
	}
	out[0] = s.paint(t.color(), padded(0, now[0]))
	if t.lapsed {
		out[7] = s.paint(styleBad, padded(7, now[7]))
	}
	line := strings.TrimRight(strings.Join(out, "  "), " ")
	if note := t.meaning(); s.width >= ticketWidth+6+utf8.RuneCountInString(note) {
		line += "   " + s.paint(styleDim, note)
	}
	return line
}

// pause gives the reader of a terminal a moment.
func (s *screen) pause(ctx context.Context, d time.Duration) error {
	if !s.live {
		return ctx.Err()
	}
	return rest(ctx, d)
}

func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// wrap breaks text into lines of at most width characters, at spaces.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(oneLine(text)) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

// cut shortens text to n characters.
func cut(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:max(0, n-1)]) + "…"
}

// count is a number with its noun, in the plural where it must be.
func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, noun)
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
