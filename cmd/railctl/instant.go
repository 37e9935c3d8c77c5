package main

import (
	"strconv"
	"strings"
	"time"
)

// instant reads a time, or an age before now; flag names where it came from.
func instant(flag, text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		if t.After(now) {
			return t, fail(exitUsage, "--%s %s lies ahead", flag, stamp(t))
		}
		return t, nil
	}
	if d, err := parseAge(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fail(exitUsage, "--%s %q: want a time like 2026-01-31T12:00:00Z, or an age like 2h or 3d", flag, text)
}

// since is instant with "" for no bound.
func since(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return instant(flag, text, now)
}

// parseAge is time.ParseDuration with whole days.
func parseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 15)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}
