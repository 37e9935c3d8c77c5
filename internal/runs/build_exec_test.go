package runs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// script returns a builder that runs sh with text.
func script(t *testing.T, text string, change ...func(*ExecOptions)) *Exec {
	t.Helper()
	o := ExecOptions{
		Command: []string{"/bin/sh", "-c", text}, Timeout: time.Minute,
		KillGrace: 200 * time.Millisecond, MaxFrameBytes: 1 << 20,
	}
	for _, f := range change {
		f(&o)
	}
	b, err := NewExec(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestExecBuild(t *testing.T) {
	t.Parallel()
	b := script(t, `printf '{"got":%s,"run":"%s"}\n' "$(cat)" "$RAIL_RUN_ID"`)
	frame, usage, err := b.Build(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	body, _ := requestJSON(request())
	want := Frame{
		JSON:          []byte(`{"got":` + string(body) + `,"run":"` + uuid(3).String() + "\"}\n"),
		SchemaVersion: "exec", BuilderVersion: "exec",
	}
	if diff := cmp.Diff(want, frame); diff != "" {
		t.Errorf("frame (-want +got):\n%s", diff)
	}
	if usage != (Usage{}) {
		t.Errorf("usage = %+v", usage)
	}
}

func TestExecOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want outcome
	}{
		"try later":           {"exit 75", outcome{Transient, KindExecExit, "other"}},
		"failure":             {`printf '{}'; exit 1`, outcome{Permanent, KindExecExit, "other"}},
		"status 74":           {"exit 74", outcome{Permanent, KindExecExit, "other"}},
		"killed from outside": {"kill -9 $$", outcome{Transient, KindExecKilled, "other"}},
		"nothing":             {"true", outcome{Permanent, KindEmpty, "not_json"}},
		"blank":               {"echo", outcome{Permanent, KindEmpty, "not_json"}},
		"no object":           {"echo hello", outcome{Permanent, KindNotJSON, "not_json"}},
		"too much, for ever":  {"yes", outcome{Permanent, KindTooLarge, "too_large"}},
		"too much, stubborn":  {"trap '' TERM PIPE; while :; do yes; done", outcome{Permanent, KindTooLarge, "too_large"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			frame, _, err := script(t, c.text).Build(t.Context(), request())
			if diff := cmp.Diff(c.want, outcomeOf(t, err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if frame.JSON != nil {
				t.Errorf("a frame came with the error: %.60q", frame.JSON)
			}
		})
	}
}

func TestExecStartTrouble(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"/no/such/program", "no-such-program-anywhere", t.TempDir()} {
		b := script(t, "", func(o *ExecOptions) { o.Command = []string{command} })
		_, _, err := b.Build(t.Context(), request())
		if diff := cmp.Diff(outcome{Unavailable, KindExecStart, "other"}, outcomeOf(t, err)); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", command, err, diff)
		}
	}
}

// A command that never reads its input, or closes it at once, is no trouble.
func TestExecUnreadInput(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`echo '{}'`, `exec <&-; echo '{}'`} {
		if _, _, err := script(t, text).Build(t.Context(), request()); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// field report 7: NUL and invalid bytes of standard error are kept as bytes.
func TestExecKeepsTheEndOfStandardError(t *testing.T) {
	t.Parallel()
	text := `head -c 300000 /dev/zero | tr '\0' x >&2; printf 'end \000\377' >&2; exit 3`
	_, _, err := script(t, text).Build(t.Context(), request())
	var bad *BuildError
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	if len(bad.Preview) != PreviewBytes || !bytes.HasSuffix(bad.Preview, []byte("xend \x00\xff")) || len(bad.PreviewHash) != 64 {
		t.Errorf("preview = %q, hash %q", bad.Preview, bad.PreviewHash)
	}
	if want := "build: exec_exit: the builder command ended with status 3"; err.Error() != want {
		t.Errorf("error = %q, want %q", err, want)
	}
}

func TestExecEnvironmentIsMinimal(t *testing.T) {
	t.Setenv("RAIL_DATABASE_URL", "postgres://u:s3cret@db/rail")
	t.Setenv("PGPASSWORD", "s3cret")
	out := filepath.Join(t.TempDir(), "env")
	b := script(t, `env >"$OUT"; echo '{}'`, func(o *ExecOptions) { o.Env = []string{"MODEL=small", "OUT=" + out} })
	if _, _, err := b.Build(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	env := string(text)
	if err != nil || strings.Contains(env, "s3cret") || !strings.Contains(env, "MODEL=small") {
		t.Errorf("environment:\n%s", env)
	}
}

// alive reports whether the process whose number is in file still runs.
func alive(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !bytes.Contains(stat, []byte(") Z "))
}

func awaitGone(t *testing.T, file string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(10 * time.Second); alive(t, file); {
		select {
		case <-deadline:
			t.Fatalf("the process of %s outlived its build", filepath.Base(file))
		case <-tick.C:
		}
	}
}

// field report 17: a hung command is ended with its whole group, however stubborn.
func TestExecTimeoutEndsTheGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := `trap '' TERM; (trap '' TERM; echo $$ >"$DIR/leader"; sh -c 'trap "" TERM; echo $$ >"$DIR/child"; while :; do sleep 60; done') & wait; sleep 60`
	b := script(t, text, func(o *ExecOptions) {
		o.Timeout, o.Env = 500*time.Millisecond, []string{"DIR=" + dir}
	})
	_, _, err := b.Build(t.Context(), request())
	if diff := cmp.Diff(outcome{Transient, KindTimeout, "timeout"}, outcomeOf(t, err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	awaitGone(t, filepath.Join(dir, "leader"))
	awaitGone(t, filepath.Join(dir, "child"))
}

func TestExecCancelLetsTheCommandCleanUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := `trap 'echo >"$DIR/clean"; exit 0' TERM; echo >"$DIR/ready"; while :; do sleep 0.05; done`
	b := script(t, text, func(o *ExecOptions) { o.KillGrace, o.Env = 20*time.Second, []string{"DIR=" + dir} })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil || t.Context().Err() != nil {
				return
			}
		}
	}()
	_, _, err := b.Build(ctx, request())
	if diff := cmp.Diff(outcome{Transient, KindCanceled, "other"}, outcomeOf(t, err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "clean")); err != nil {
		t.Error("the command was not asked to end first")
	}
}

// A descendant that keeps the pipes open does not hold the build: one in the group
// is killed with it, one that left the group is not waited for.
func TestExecDescendantsHoldNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := script(t, `sleep 600 & echo $! >"$DIR/in"; echo '{"a":1}'`, func(o *ExecOptions) { o.Env = []string{"DIR=" + dir} })
	frame, _, err := b.Build(t.Context(), request())
	if err != nil || string(frame.JSON) != "{\"a\":1}\n" {
		t.Errorf("Build = %q, %v", frame.JSON, err)
	}
	awaitGone(t, filepath.Join(dir, "in"))

	b = script(t, `setsid sh -c 'echo $$ >"$DIR/out"; exec sleep 600' & until test -s "$DIR/out"; do :; done; echo '{"a":1}'`,
		func(o *ExecOptions) { o.Env = []string{"DIR=" + dir} })
	frame, _, err = b.Build(t.Context(), request())
	if err != nil || string(frame.JSON) != "{\"a\":1}\n" {
		t.Errorf("Build = %q, %v", frame.JSON, err)
	}
	text, _ := os.ReadFile(filepath.Join(dir, "out"))
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestExecNotStartedAfterTheEnd(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "started")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := script(t, "touch "+mark).Build(ctx, request())
	if got := outcomeOf(t, err); got.Kind != KindCanceled {
		t.Errorf("Build = %v", err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran")
	}
}

func TestNewExecRefuses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]ExecOptions{
		"no command": {Timeout: 1, MaxFrameBytes: 1},
		"no timeout": {Command: []string{"x"}, MaxFrameBytes: 1},
		"no limit":   {Command: []string{"x"}, Timeout: 1},
		"env":        {Command: []string{"x"}, Timeout: 1, MaxFrameBytes: 1, Env: []string{"X"}},
	} {
		if _, err := NewExec(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
