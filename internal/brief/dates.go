package brief

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// when is a date found in a text: normalised, with its precision.
type when struct {
	date      string // 2013-06-13, 2013-06 or 2013
	until     string // end of a range, else empty
	precision string // day, month, year
	start     int    // byte range of the date in the text
	end       int
}

const monthNames = `(January|February|March|April|May|June|July|August|September|October|November|December|` +
	`Jan\.?|Feb\.?|Mar\.?|Apr\.?|Jun\.?|Jul\.?|Aug\.?|Sept?\.?|Oct\.?|Nov\.?|Dec\.?)`

var (
	monthDayYear = regexp.MustCompile(`\b` + monthNames + ` (\d{1,2})(?:st|nd|rd|th)?, ?(\d{4})\b`)
	dayMonthYear = regexp.MustCompile(`\b(\d{1,2})(?:st|nd|rd|th)?(?: day of)? ` + monthNames + `,? (\d{4})\b`)
	isoDate      = regexp.MustCompile(`\b(\d{4})-(\d{2})-(\d{2})\b`)
	monthYear    = regexp.MustCompile(`\b` + monthNames + `,? (\d{4})\b`)
	yearRange    = regexp.MustCompile(`\b(?:[Ff]rom|[Bb]etween|over the course of) (\d{4}) (?:to|through|until|and) (\d{4})\b`)
	yearInCite   = regexp.MustCompile(`\((\d{4})\)`)
	yearAlone    = regexp.MustCompile(`\b(?:[Ii]n|[Ss]ince|[Bb]y|[Uu]ntil|[Tt]hrough|[Dd]uring|[Aa]fter|[Bb]efore|[Ff]rom|of|for|` +
		`[Ee]arly|[Ll]ate|[Tt]he year|[Aa]n?|[Tt]he|its|their) (\d{4})\b`)
)

// findDates returns the dates of s in order of place, none overlapping another.
// A year alone counts only after a word that makes it one ("in 1955").
func findDates(s string) []when {
	var out []when
	add := func(re *regexp.Regexp, read func(g []string) when) {
		for _, m := range re.FindAllStringSubmatchIndex(s, -1) {
			w := read(groups(s, m))
			w.start, w.end = m[0], m[1]
			if w.date != "" && !overlaps(out, w) && (s[m[1]-1] == ')' || !isQuantity(s[m[1]:])) {
				out = append(out, w)
			}
		}
	}
	add(monthDayYear, func(g []string) when { return dayOf(g[3], g[1], g[2]) })
	add(dayMonthYear, func(g []string) when { return dayOf(g[3], g[2], g[1]) })
	add(isoDate, func(g []string) when { return isoOf(g[0]) })
	add(monthYear, func(g []string) when { return monthOf(g[2], g[1]) })
	add(yearRange, func(g []string) when { return rangeOf(g[1], g[2]) })
	add(yearInCite, func(g []string) when { return rangeOf(g[1], "") })
	add(yearAlone, func(g []string) when { return rangeOf(g[1], "") })
	slices.SortFunc(out, func(a, b when) int { return a.start - b.start })
	return out
}

func groups(s string, m []int) []string {
	g := make([]string, len(m)/2)
	for i := range g {
		if m[2*i] >= 0 {
			g[i] = s[m[2*i]:m[2*i+1]]
		}
	}
	return g
}

func overlaps(all []when, w when) bool {
	return slices.ContainsFunc(all, func(o when) bool { return w.start < o.end && o.start < w.end })
}

var quantity = regexp.MustCompile(`^(?:[,.]\d|[-–/]\d|%| ?(?:percent|CFS|cubic|acre|tonnes|tons|units|pallets|kg|litres|euros|dollars|EUR|USD|hours|days|pages|F\. ?\dd|U\. ?S\.|WL)\b)`)

// isQuantity reports whether a number followed by rest counts things, not years.
func isQuantity(rest string) bool { return quantity.MatchString(rest) }

func dayOf(year, month, day string) when {
	m := monthNumber(month)
	t, err := time.Parse("2006-1-2", fmt.Sprintf("%s-%d-%s", year, m, strings.TrimLeft(day, "0")))
	if err != nil || !plausible(year) {
		return when{}
	}
	return when{date: t.Format("2006-01-02"), precision: "day"}
}

func isoOf(s string) when {
	if _, err := time.Parse("2006-01-02", s); err != nil || !plausible(s[:4]) {
		return when{}
	}
	return when{date: s, precision: "day"}
}

func monthOf(year, month string) when {
	if !plausible(year) {
		return when{}
	}
	return when{date: fmt.Sprintf("%s-%02d", year, monthNumber(month)), precision: "month"}
}

func rangeOf(from, to string) when {
	if !plausible(from) || to != "" && (!plausible(to) || to < from) {
		return when{}
	}
	return when{date: from, until: to, precision: "year"}
}

func plausible(year string) bool {
	n, err := strconv.Atoi(year)
	return err == nil && n >= 1600 && n <= 2100
}

func monthNumber(name string) int {
	for m := time.January; m <= time.December; m++ {
		if strings.HasPrefix(name, m.String()[:3]) {
			return int(m)
		}
	}
	return 0
}
