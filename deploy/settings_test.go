package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"briefrail/internal/config"
)

// environment is what a platform gives to one program: variables, and the files that
// it mounts, by their paths. A mounted file that is not here is a secret.
type environment struct {
	vars  map[string]string
	files map[string]string
}

// mounted are the paths below which our files for platforms put what they mount.
var mounted = regexp.MustCompile(`^(/etc/rail|/run/credentials/[^/]+)/.+`)

// settings loads what a program finds when a platform starts it: a variable that no
// program knows, a value that is none, and what does not fit together are refused as
// they would be there. Mounted files are stood in for.
func (e environment) settings(t *testing.T, where string, program config.Component) *config.Config {
	t.Helper()
	root := t.TempDir()
	var env []string
	for name, value := range e.vars {
		if mounted.MatchString(value) {
			value = standIn(t, root, value, e.files[value])
		}
		env = append(env, name+"="+value)
	}
	cfg, err := config.Load(config.Source{Component: program, Env: env})
	if err != nil {
		t.Fatalf("%s: what %s finds there is refused: %v", where, program, err)
	}
	return cfg
}

func standIn(t *testing.T, root, path, text string) string {
	t.Helper()
	if text == "" {
		text = "postgres://somebody@database/rail?sslmode=verify-full\n"
	}
	at := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

// defaults are a program's settings where a platform says only what it must.
func defaults(t *testing.T, program config.Component) *config.Config {
	t.Helper()
	return environment{vars: map[string]string{
		"RAIL_DATABASE_URL": "postgres://somebody@database/rail", "RAIL_BUILDER_HTTP_URL": "http://builder/",
	}}.settings(t, "the defaults", program)
}

// leastGrace is what a platform must give a program between SIGTERM and SIGKILL: its
// own longest stop, and 30 s to hand back, flush and close.
func leastGrace(cfg *config.Config) time.Duration {
	stop := cfg.Worker.StopGrace
	if cfg.Component() == config.Relay {
		stop = cfg.Relay.Timeout
	}
	return stop + 30*time.Second
}

// port is that of a listen address.
func port(listen string) string { return listen[strings.LastIndexByte(listen, ':')+1:] }

// known are the settings of docs/CONFIGURATION.md, which is generated from the table of
// internal/config, by their keys.
func known(t *testing.T) []string {
	t.Helper()
	var doc strings.Builder
	if err := config.Reference(&doc); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| `(?:RAIL|OTEL)_").FindAllStringSubmatch(doc.String(), -1) {
		keys[m[1]] = true
	}
	if len(keys) < 50 {
		t.Fatalf("%d settings found", len(keys))
	}
	return slices.Sorted(maps.Keys(keys))
}

// names of variables in any text.
var railVariable = regexp.MustCompile(`\bRAIL_[A-Z][A-Z0-9_]*\b`)

// assertKnown wants every RAIL_ name of a text to be a setting's variable.
func assertKnown(t *testing.T, where, text string) {
	t.Helper()
	all := map[string]bool{"RAIL_CONFIG": true, "RAIL_NAME": true}
	for _, key := range known(t) {
		all["RAIL_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))] = true
	}
	for _, name := range railVariable.FindAllString(text, -1) {
		if !all[name] {
			t.Errorf("%s: no program knows %s", where, name)
		}
	}
}

// read is the text of a file of this folder.
func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// filesOf are the files that match, which must be some.
func filesOf(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	return files
}
