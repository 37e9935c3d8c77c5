package config

import (
	"slices"
	"strings"
)

// maxSuggestions bounds the names that one suggestion offers.
const maxSuggestions = 3

// suggest returns "did you mean …" for the known names nearest to name, or "".
func suggest(name string, known []string) string {
	near := nearest(name, known)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// Nearest returns the names that name was probably meant to be, at most three, or
// none: dots and underscores count alike.
func Nearest(name string, known []string) []string { return nearest(name, known) }

func nearest(name string, known []string) []string {
	want := plainName(name)
	for _, match := range []func(string) bool{
		func(k string) bool { return k == want },
		func(k string) bool { return strings.HasPrefix(k, want+".") || strings.HasSuffix(k, "."+want) },
	} {
		var hits []string
		for _, k := range known {
			if match(plainName(k)) {
				hits = append(hits, k)
			}
		}
		if len(hits) > 0 {
			return hits[:min(len(hits), maxSuggestions)]
		}
	}
	return closest(want, known)
}

// plainName brings keys, variables and flags to one spelling.
func plainName(s string) string {
	s = strings.ToLower(strings.TrimPrefix(s, envPrefix))
	return strings.NewReplacer("_", ".", "-", ".").Replace(s)
}

// closest returns the name with the fewest edits, when few enough to be a slip.
func closest(want string, known []string) []string {
	best, distance := "", max(2, len(want)/4)+1
	for _, k := range known {
		if d := edits(want, plainName(k)); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return nil
	}
	return []string{best}
}

// edits is the Levenshtein distance of two short ASCII names.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + slices.Min([]int{diagonal, row[j], row[j+1]})
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
