// Command brief-builder is the reference build service: it keeps the record of
// each matter in schema record and answers the rail's build requests over HTTP.
//
// It owns its flags, its few BRIEF_* settings and its exit codes: 0 done, 1
// failed, 2 wrong use. Everything else is package brief's. It is an example of a
// build service, not a part of the rail.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

// version is constant: the linker sets it at release.
var version = "dev"

const usage = `brief-builder reads the documents of a matter and builds its Brief.

  brief-builder serve [--listen ADDR] [--delay 3s]     answer build requests
  brief-builder ingest DIR --firm UUID --matter UUID   store documents and their facts
  brief-builder migrate                                create or update schema record
  brief-builder healthcheck [--listen ADDR]            ask a running service whether it is ready
  brief-builder version

The database comes from BRIEF_DATABASE_URL or BRIEF_DATABASE_URL_FILE, or for one
command from --database-url. Every command explains itself with --help.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(exitCode(err, os.Stderr))
}

// errUsage is wrapped by mistakes in how the program was called.
var errUsage = errors.New("wrong use")

func exitCode(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(stderr, "brief-builder:", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// run is the whole program but for signals and the exit.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return fmt.Errorf("%w: no command", errUsage)
	}
	commands := map[string]func(context.Context, *call) error{
		"serve": serve, "ingest": ingest, "migrate": migrate, "healthcheck": healthcheck, "version": showVersion,
	}
	if args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(stdout, usage)
		return nil
	}
	command, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("%w: no command %q; see brief-builder help", errUsage, args[0])
	}
	env, err := readEnv(environ)
	if err != nil {
		return err
	}
	return command(ctx, &call{name: args[0], args: args[1:], env: env, stdout: stdout, stderr: stderr})
}
