package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// duration is a kind that wants a unit: a bare 15 has been read as 15
// nanoseconds often enough. The bounds are texts of the same form.
func duration(least, most string) kind {
	lo, errLo := parseDuration(least)
	hi, errHi := parseDuration(most)
	bounds := least + " to " + most
	return kind{
		name: "duration", bounds: bounds,
		want: "a duration with a unit, such as 500ms, 15s, 5m, 2h or 7d, from " + bounds,
		parse: ofText(func(s string) (any, error) {
			d, err := parseDuration(s)
			switch {
			case errLo != nil || errHi != nil:
				return nil, errors.Join(errLo, errHi)
			case err != nil:
				return nil, err
			case d < lo || d > hi:
				return nil, errors.New("is out of bounds")
			}
			return d, nil
		}),
	}
}

// parseDuration reads Go's form with a unit d for days in front. Zero needs no
// unit, as it is the same in all of them.
func parseDuration(s string) (time.Duration, error) {
	switch {
	case s == "0":
		return 0, nil
	case s == "":
		return 0, errors.New("is empty")
	case strings.HasPrefix(s, "-"):
		return 0, errors.New("is negative")
	case strings.HasPrefix(s, "+"):
		return 0, errors.New("has a sign")
	case strings.Trim(s, "0123456789.") == "":
		return 0, errors.New("has no unit")
	}
	days, rest, hasDays := strings.Cut(s, "d")
	if !hasDays {
		return wholeMillis(time.ParseDuration(s))
	}
	n, err := strconv.Atoi(days)
	if err != nil || n > 36500 {
		return 0, errors.New("is not a duration")
	}
	if rest == "" {
		return time.Duration(n) * day, nil
	}
	tail, err := wholeMillis(time.ParseDuration(rest))
	if err != nil || tail < 0 || tail >= day {
		return 0, errors.New("is not a duration")
	}
	return time.Duration(n)*day + tail, nil
}

func wholeMillis(d time.Duration, err error) (time.Duration, error) {
	if err != nil {
		return 0, errors.New("is not a duration")
	}
	if d == 0 || d%time.Millisecond != 0 {
		return 0, errors.New("is finer than a millisecond, or zero in disguise")
	}
	return d, nil
}

// formatDuration writes d as an operator would: 90d, 15m, 1m30s, 0.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	var b strings.Builder
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.size
		}
	}
	return b.String()
}

// size is a kind for bytes. Only the binary units are taken: MB means two
// different numbers to two people.
func size(least, most string) kind {
	lo, errLo := parseSize(least)
	hi, errHi := parseSize(most)
	bounds := least + " to " + most
	return kind{
		name: "size", bounds: bounds,
		want: "a size with a unit B, KiB, MiB or GiB, such as 200KiB, from " + bounds,
		parse: ofText(func(s string) (any, error) {
			n, err := parseSize(s)
			switch {
			case errLo != nil || errHi != nil:
				return nil, errors.Join(errLo, errHi)
			case err != nil:
				return nil, err
			case n < lo || n > hi:
				return nil, errors.New("is out of bounds")
			}
			return n, nil
		}),
	}
}

func parseSize(s string) (int64, error) {
	m := regexp.MustCompile(`\A([0-9]{1,18})([A-Za-z]*)\z`).FindStringSubmatch(s)
	if m == nil {
		return 0, errors.New("is not a size")
	}
	unit, ok := map[string]int64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[m[2]]
	if !ok {
		return 0, errors.New("has no unit, or one that is not known")
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, errors.New("is too large")
	}
	return n * unit, nil
}

// formatSize writes n in the largest unit that divides it.
func formatSize(n int64) string {
	switch {
	case n > 0 && n%(1<<30) == 0:
		return fmt.Sprintf("%dGiB", n>>30)
	case n > 0 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n > 0 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}
