package archtest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The patterns are put together here so that this file does not match itself.
var (
	unfinished = regexp.MustCompile(`\b(` + "TO" + `DO|` + "FIX" + `ME)\b`)
	ownMachine = regexp.MustCompile("/wo" + "rk/")
)

func wordLaws() []law {
	return []law{
		{
			name:  "nothing is left for later in the text",
			check: func(t *tree) []string { return grep(t, unfinished, "do it now, or write down where it is wanted") },
			broken: []example{
				one("internal/jobs/a.go", "package jobs\n\n// TO"+"DO: later\n", "do it now"),
				one("migrations/001.sql", "-- FIX"+"ME\n", "do it now"),
			},
			sound: []example{one("internal/jobs/a.go", "package jobs\n\n// done\n", "")},
		},
		{
			name:   "no path of one machine",
			check:  func(t *tree) []string { return grep(t, ownMachine, "a path that exists on one machine only") },
			broken: []example{one("README.md", "see /wo"+"rk/main\n", "one machine only")},
			sound:  []example{one("README.md", "see ./docs\n", "")},
		},
	}
}

// grep complains about every line of the module that matches the pattern.
// Checksums and the licence are not our words.
func grep(t *tree, pattern *regexp.Regexp, why string) []string {
	var found []string
	for name, text := range t.texts {
		if slices.Contains([]string{"go.sum", "LICENSE"}, path.Base(name)) || !pattern.MatchString(text) {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if m := pattern.FindString(line); m != "" {
				found = append(found, fmt.Sprintf("%s:%d: %q: %s", name, i+1, m, why))
			}
		}
	}
	slices.Sort(found)
	return found
}
