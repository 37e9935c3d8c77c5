package config

import (
	"strings"
	"testing"
	"time"
)

// FuzzFile feeds any text as a file of either type: it is read or refused, never
// a panic, and a secret variable is never told.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		"", "# only a comment\n", "---\n", "null", "lease: {duration: 15}", "lease:\n", "a: &x [*x]", "? [a]\n: b", "1: 2",
		"[lease]\nduration = 15", "trigger: {rules: [{name: a.b, priority: bulk}]}", "<<: {a: 1}", "lease: !!binary aGk=", "\ufeffconsole: on",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func([]byte) (raw, error){parseYAML, parseTOML} {
			tree, err := parse([]byte(text))
			if err != nil {
				continue
			}
			var ps problems
			w := newWalker("f", table(), &ps)
			w.walk("", tree)
			for _, s := range table() {
				if l, ok := w.found[s.key]; ok {
					_, _ = s.kind.parse(l.value)
				}
			}
			_ = ps.err()
		}
	})
}

// FuzzDuration: what is accepted is whole milliseconds, not negative, and reads
// back from its canonical form.
func FuzzDuration(f *testing.F) {
	for _, s := range []string{"0", "15", "15mm", "-5m", "7d", "1d2h", "1.5h", "1d1d", "9223372036854775807ns", "36500d23h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := parseDuration(s)
		if err != nil {
			return
		}
		again, err := parseDuration(formatDuration(d))
		if err != nil || again != d || d < 0 || d%time.Millisecond != 0 {
			t.Errorf("%q is %s, reads back as %s, %v", s, d, again, err)
		}
	})
}

// FuzzRedactDSN: the password after the first colon is never shown.
func FuzzRedactDSN(f *testing.F) {
	for _, s := range []string{"@h/d", "/@h/d", "#@h/d", "?@h/d", "@x@h", "%@h/d", ":1@h", "[::1]@h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, tail string) {
		if got := redactDSN("postgres://u:hunter2" + tail); strings.Contains(got, "hunter2") {
			t.Errorf("%q shows %s", tail, got)
		}
		if got := redactDSN("postgres://u:1" + tail[:min(1, len(tail))] + "hunter2@h/d"); strings.Contains(got, "hunter2") {
			t.Errorf("%q shows %s", tail, got)
		}
	})
}
