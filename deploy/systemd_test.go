package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"briefrail/internal/config"
)

// unit is a unit file's section [Service]: each name with all its values.
type unit map[string][]string

func readUnit(t *testing.T, file string) unit {
	t.Helper()
	u, section := unit{}, ""
	for line := range strings.Lines(read(t, file)) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = line
		case ok && section == "[Service]":
			u[name] = append(u[name], value)
		case !ok:
			t.Errorf("%s: %q", file, line)
		}
	}
	return u
}

func (u unit) one(name string) string { return strings.Join(u[name], " ") }

// environment is that of the process. %d is the folder of the unit's credentials.
func (u unit) environment() environment {
	e := environment{vars: map[string]string{}, files: map[string]string{
		"/etc/rail/rail.yaml": "builder: {http: {url: 'http://127.0.0.1:8087/v1/build'}}\n",
	}}
	for _, v := range u["Environment"] {
		name, value, _ := strings.Cut(v, "=")
		e.vars[name] = strings.ReplaceAll(value, "%d", "/run/credentials/unit")
	}
	return e
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for file, program := range map[string]config.Component{
		"railworker.service": config.Worker, "outbox-relay.service": config.Relay, "rail-migrate.service": config.Control,
	} {
		u := readUnit(t, filepath.Join("systemd", file))
		cfg := u.environment().settings(t, file, program)
		for _, name := range []string{"DynamicUser", "NoNewPrivileges", "PrivateDevices", "PrivateTmp", "MemoryDenyWriteExecute", "RestrictNamespaces"} {
			if u.one(name) != "yes" {
				t.Errorf("%s: %s=%s", file, name, u.one(name))
			}
		}
		if u.one("ProtectSystem") != "strict" || len(u["CapabilityBoundingSet"]) != 1 || u.one("CapabilityBoundingSet") != "" {
			t.Errorf("%s: the service may do more than it needs", file)
		}
		for _, command := range u["ExecStart"] {
			if want := "/usr/local/bin/" + string(program) + " "; !strings.HasPrefix(command, want) {
				t.Errorf("%s: %s", file, command)
			}
		}
		if program == config.Control {
			continue
		}
		seconds, err := strconv.Atoi(u.one("TimeoutStopSec"))
		if grace := time.Duration(seconds) * time.Second; err != nil || grace < leastGrace(cfg) {
			t.Errorf("%s: TimeoutStopSec=%s, the program may need %s", file, u.one("TimeoutStopSec"), leastGrace(cfg))
		}
		mib, err := strconv.Atoi(strings.TrimSuffix(u.one("MemoryMax"), "M"))
		if want := "GOMEMLIMIT=" + memoryLimit(mib); err != nil || !slices.Contains(u["Environment"], want) {
			t.Errorf("%s: MemoryMax=%s without %s", file, u.one("MemoryMax"), want)
		}
	}
}

// A unit of Type=notify whose program never notifies is killed at its start.
func TestUnitsDoNotWaitForWhatNobodySays(t *testing.T) {
	t.Parallel()
	for _, file := range filesOf(t, "systemd/*.service") {
		if kind := readUnit(t, file).one("Type"); kind != "exec" && kind != "oneshot" {
			t.Errorf("%s: Type=%s", file, kind)
		}
		assertKnown(t, file, read(t, file))
	}
}

var unitProgram = regexp.MustCompile(`(?m)^(ExecStart=)\S+`)

// systemd itself reads the units; the programs are not installed where it runs, so
// another one stands for them.
func TestUnitsAreSystemds(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not in PATH: units are read, and not held to systemd")
	}
	something, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range filesOf(t, "systemd/*.service") {
		at := filepath.Join(t.TempDir(), filepath.Base(file))
		if err := os.WriteFile(at, []byte(unitProgram.ReplaceAllString(read(t, file), "${1}"+something)), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"verify", "--man=no", at}, {"security", "--offline=yes", "--threshold=20", "--no-pager", at}} {
			if out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput(); err != nil {
				t.Errorf("systemd-analyze %s %s: %v\n%s", args[0], file, err, out)
			}
		}
	}
}
