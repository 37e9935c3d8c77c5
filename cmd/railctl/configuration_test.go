package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"briefrail/internal/config"
)

func TestConfigShowHidesSecretsAndTellsOrigins(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rail.yaml")
	if err := os.WriteFile(file, []byte("settle: {quiet: 2s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, env: []string{"RAIL_DATABASE_URL=" + nobody}}
	shown := decode[[]config.Shown](r, "config.show", "config", "show", "--config", file, "--timeout", "7s")
	got := map[string]config.Shown{}
	for _, s := range shown {
		got[s.Setting] = s
	}
	for key, want := range map[string]config.Shown{
		"settle.quiet":               {Setting: "settle.quiet", Value: "2s", Origin: file + ":1"},
		"database.statement_timeout": {Setting: "database.statement_timeout", Value: "7s", Origin: "flag --database-statement-timeout"},
		"log.level":                  {Setting: "log.level", Value: "info", Origin: "default"},
	} {
		if got[key] != want {
			t.Errorf("%s: %+v, want %+v", key, got[key], want)
		}
	}
	if u := got["database.url"]; strings.Contains(u.Value, "hunter2") || u.Origin != "environment RAIL_DATABASE_URL" {
		t.Errorf("database.url %+v", u)
	}
	if out := r.ok("config", "show"); !strings.HasPrefix(out, "SETTING") || strings.Contains(out, "hunter2") {
		t.Errorf("show: %s", out)
	}
}

// Long values would push the origin off the screen; scripts and -o wide have them
// whole. What was turned off is shown by that word.
func TestConfigShowForPeople(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, env: []string{"RAIL_DATABASE_URL=" + nobody, "RAIL_BUILDER_HTTP_URL=http://builder", "RAIL_DISPATCH_TOTAL=0"}}
	for line := range strings.Lines(r.ok("config", "show")) {
		if n := utf8.RuneCountInString(line); n > 140 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	rules := decode[[]config.Shown](r, "config.show", "config", "show")
	i := slices.IndexFunc(rules, func(s config.Shown) bool { return s.Setting == "trigger.rules" })
	if wide := r.ok("config", "show", "-o", "wide"); !strings.Contains(wide, rules[i].Value) || strings.Contains(wide, "…") {
		t.Errorf("-o wide:\n%s", wide)
	}
	worker := r.ok("config", "show", "--for", "railworker")
	for _, key := range []string{"dispatch.total", "dispatch.per_firm"} {
		if !regexp.MustCompile(regexp.QuoteMeta(key) + ` +off `).MatchString(worker) {
			t.Errorf("%s is not off in\n%s", key, worker)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  []string
		args []string
		code int
		says string
	}{
		{nil, nil, exitOK, "is valid"},
		{[]string{"RAIL_SETTLE_QUIET=15"}, nil, exitUsage, "settle.quiet"},
		{[]string{"RAIL_LEASE_DURATION=15mm"}, nil, exitUsage, "lease.duration"},
		{nil, []string{"--for", "railworker"}, exitUsage, "database.url"},
		{nil, []string{"--for", "teapot"}, exitUsage, "--for"},
		{[]string{"RAIL_DATABASE_URL=postgres://host:port/db"}, nil, exitUsage, "database.url: database connection string"},
		{[]string{"RAIL_DATABASE_URL=" + nobody, "RAIL_BUILDER_HTTP_URL=http://builder"}, []string{"--for", "railworker"}, exitOK, "railworker is valid"},
	} {
		got := call(t, c.env, append([]string{"config", "validate"}, c.args...)...)
		if got.code != c.code || !strings.Contains(got.out+got.err, c.says) {
			t.Errorf("%v %v: exit %d: %s%s", c.env, c.args, got.code, got.out, got.err)
		}
	}
}

func TestTextsThatNeedNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says string
		args []string
	}{
		{"| `lease.duration` |", []string{"config", "reference"}},
		{"railctl dev (go", []string{"version"}},
		{"railctl dev", []string{"--version"}},
		{"complete -o", []string{"completion", "bash"}},
		{"#compdef railctl", []string{"completion", "zsh"}},
		{"every change", []string{"help"}},
	} {
		got := call(t, []string{"RAIL_DATABASE_URL="}, c.args...)
		if got.code != exitOK || !strings.Contains(strings.ToLower(got.out), strings.ToLower(c.says)) {
			t.Errorf("%v: exit %d: %.300s%s", c.args, got.code, got.out, got.err)
		}
	}
}

// A flag for the connection string would be readable by everybody.
func TestNoFlagTakesASecret(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--database-url", "--dsn", "--password"} {
		if got := call(t, nil, "status", flag, nobody); got.code != exitUsage || !strings.Contains(got.err, "unknown flag") {
			t.Errorf("%s: exit %d: %s", flag, got.code, got.err)
		}
	}
}
