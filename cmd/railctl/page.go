package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"briefrail/internal/rail"
)

// page is a table for people. Nothing on it is coloured, and what came from the
// database cannot move the cursor.
type page struct {
	tw   *tabwriter.Writer
	now  time.Time
	wide bool // identifiers and values whole, whatever the width
}

func newPage(w io.Writer, now time.Time) *page {
	return &page{tw: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), now: now}
}

// row writes one line of cells.
func (p *page) row(cells ...any) {
	words := make([]string, len(cells))
	for i, c := range cells {
		words[i] = p.cell(c)
	}
	fmt.Fprintln(p.tw, strings.TrimRight(strings.Join(words, "\t"), "\t "))
}

// line writes text that is no table; columns do not reach across it.
func (p *page) line(format string, args ...any) {
	_ = p.tw.Flush() // an error shows again in the last flush
	fmt.Fprintln(p.tw, oneLine(fmt.Sprintf(format, args...)))
	_ = p.tw.Flush()
}

// section is line after an empty one.
func (p *page) section(format string, args ...any) {
	p.line("")
	p.line(format, args...)
}

func (p *page) flush() error { return p.tw.Flush() }

// cell is the text of one value; "-" stands for nothing.
func (p *page) cell(v any) string {
	switch v := v.(type) {
	case time.Time:
		return p.when(v)
	case *time.Time:
		if v == nil {
			return "-"
		}
		return p.when(*v)
	case rail.UUID:
		if v.IsZero() {
			return "-"
		}
	case bool:
		if v {
			return "yes"
		}
		return "no"
	}
	return orDash(oneLine(fmt.Sprint(v)))
}

// when is a time in UTC with its age.
func (p *page) when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return stamp(t) + " (" + age(p.now.Sub(t)) + ")"
}

// id is an identifier as far as it tells rows apart; -o wide has it whole.
func (p *page) id(u rail.UUID) string {
	switch text := u.String(); {
	case u.IsZero():
		return ""
	case p.wide:
		return text
	case text[14] == '7': // begins with its time, which neighbours share
		return "…" + text[len(text)-8:]
	default:
		return text[:8]
	}
}

// key is a matter's key, its parts as in id.
func (p *page) key(k rail.Key) string { return p.id(k.Firm) + "/" + p.id(k.Matter) }

// moment is a time without its age, or in -o wide with it.
func (p *page) moment(t *time.Time) string {
	switch {
	case t == nil:
		return ""
	case p.wide:
		return p.when(*t)
	}
	return stamp(*t)
}

// brief keeps a text short enough for a column; -o wide has it whole.
func (p *page) brief(s string) string {
	const most = 60
	runes := []rune(s)
	if p.wide || len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}

// stampMilli tells events of one second apart.
func stampMilli(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// age says how long ago something was, or in how long it will be.
func age(d time.Duration) string {
	switch {
	case d < -time.Second:
		return "in " + span(-d)
	case d < time.Second:
		return "now"
	}
	return span(d) + " ago"
}

// span is a duration in its largest unit, two of them while they are small.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// oneLine keeps control characters, and with them whatever a terminal would obey,
// out of the table. A mark that turns the direction of what stands around it would
// have the operator read another row than there is.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < ' ' || (r >= 0x7f && r < 0xa0):
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// blank is a cell that is empty because the one above it speaks for it.
const blank = " "

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// list keeps an empty list a list in JSON.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
