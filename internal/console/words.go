package console

import (
	"fmt"
	"html/template"
	"strings"
	"time"
	"unicode"

	"briefrail/internal/rail"
)

// words are the functions of the templates.
func words() template.FuncMap {
	return template.FuncMap{
		"clip": clip, "short": short, "count": count, "tab": newTab, "len64": func(rows []staleRow) int64 { return int64(len(rows)) },
		"plus": func(a, b int) int { return a + b }, "minus": func(a, b int) int { return a - b }, "odd": func(n int) bool { return n%2 == 1 },
	}
}

// tab is a link to a page, from a page.
type tab struct {
	URL, Label string
	Current    bool
}

func newTab(url, label, name, here string) tab { return tab{url, label, name == here} }

// clip is text of the ledger, or of anybody else, fit to be shown: cleaned as plain
// does, on one line, and at most n characters.
func clip(n int, s string) string {
	const most = 4 // bytes of a character: what is behind is never looked at
	cut := len(s) > most*(n+1)
	if cut {
		s = s[:most*(n+1)]
	}
	runes := []rune(strings.Join(strings.Fields(plain(s)), " "))
	if len(runes) > n {
		cut, runes = true, runes[:n]
	}
	if cut {
		return string(runes) + "…"
	}
	return string(runes)
}

// plain makes text valid and harmless: control characters become spaces, and those
// that turn the direction of what stands around them are written out.
func plain(s string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		switch {
		case unicode.Is(unicode.Bidi_Control, r):
			fmt.Fprintf(&b, "[U+%04X]", r)
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// short is as much of an identifier as tells rows apart.
func short(u rail.UUID) string {
	switch text := u.String(); {
	case u.IsZero():
		return "–"
	case text[14] == '7': // begins with its time, which neighbours share
		return "…" + text[len(text)-8:]
	default:
		return text[:8]
	}
}

// count writes a number with its thousands apart.
func count(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// plural counts in words.
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// moment is an instant of the ledger, seen from the instant of the look.
type moment struct {
	At  time.Time
	now time.Time // unexported, so that a look that only grew older is the same look
}

// ISO is the instant for programs.
func (m moment) ISO() string { return m.At.UTC().Format("2006-01-02T15:04:05.000Z") }

// Clock is the instant for people.
func (m moment) Clock() string { return m.At.UTC().Format("2006-01-02 15:04:05Z") }

// Age says how long ago it was, or in how long it will be.
func (m moment) Age() string {
	switch d := m.now.Sub(m.At); {
	case d < -time.Second:
		return "in " + span(-d)
	case d < time.Second:
		return "now"
	default:
		return span(d) + " ago"
	}
}

// Known reports whether there is an instant.
func (m moment) Known() bool { return !m.At.IsZero() }

// Since is the age alone, for a figure.
func (m moment) Since() string { return span(max(0, m.now.Sub(m.At))) }

// moments makes moments of one look.
type moments struct{ now time.Time }

func (x moments) of(t time.Time) moment { return moment{At: t, now: x.now} }

func (x moments) maybe(t *time.Time) moment {
	if t == nil {
		return moment{}
	}
	return x.of(*t)
}

// span is a duration in its largest unit, two of them while they are small.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 10*time.Minute:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
