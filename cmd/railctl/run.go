package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"briefrail/internal/config"
	"briefrail/internal/pg"
)

// app is one invocation: what it came with, and what its flags made of it.
type app struct {
	env            []string
	stdin          io.Reader
	stdout, stderr io.Writer

	terminal bool // a person can answer on stdin
	watched  bool // a person sees stderr: progress is worth writing
	accepted bool // the command line was understood: later errors are not about it

	format   string
	settings *pflag.FlagSet
	now      func() time.Time
	current  *work // what is being told of, if anything
}

// run is the whole program but for signals and the exit; it returns the exit code.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{
		env: env, stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now,
		terminal: isTerminal(stdin) && isTerminal(stderr), watched: isTerminal(stderr),
	}
	return a.execute(ctx, args)
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *app) execute(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code := a.code(ctx, err)
	if !a.accepted {
		err = meant(root, cmd, err)
	}
	a.complain(cmd, code, err)
	return code
}

// complain writes an error for people: its text without secrets, and where to
// read on when it is about the command line.
func (a *app) complain(cmd *cobra.Command, code int, err error) {
	a.hush()
	prefix, said := "railctl: ", map[string]bool{}
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(pg.Text(lineError(line), 2000))
		if said[line] { // a server is tried with TLS and without, and refuses both alike
			continue
		}
		fmt.Fprintln(a.stderr, strings.TrimRight(prefix+line, " "))
		prefix, said[line] = "  ", true
	}
	if code == exitUsage && !isConfig(err) {
		fmt.Fprintf(a.stderr, "See: %s --help\n", cmd.CommandPath())
	}
}

// lineError is one line of an error's text, so that pg.Text can clean it.
type lineError string

func (e lineError) Error() string { return string(e) }

// load reads the configuration of railctl.
func (a *app) load() (*config.Config, error) {
	return config.Load(config.Source{Component: config.Control, Flags: a.settings, Env: a.env})
}

// lookup reads a variable of the environment that is no setting of ours.
func (a *app) lookup(name string) string {
	for _, kv := range a.env {
		if n, v, _ := strings.Cut(kv, "="); n == name {
			return v
		}
	}
	return ""
}
