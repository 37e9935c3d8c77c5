// Command outbox-relay sends facts from the outbox to a bus or a queue, as nudges of
// ids only. Any number may run beside one PostgreSQL; they share the work evenly.
//
// Exit codes: 0 after a stop that was asked for, 1 on an error, 2 for a mistake in
// the configuration or the command line, 6 when healthcheck finds it unhealthy.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"briefrail/cmd/internal/daemon"
	"briefrail/internal/config"
)

// constant: set by the linker
var version = "dev"

func main() {
	// The second signal is immediate: after the first, the default handling is back.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is main without the process.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	p := daemon.Program{
		Component: config.Relay, Short: "Sends facts from the outbox to a bus or a queue", Version: version,
		Env: env, Stdout: stdout, Stderr: stderr,
	}
	p.Serve = func(ctx context.Context, cfg *config.Config) error { return start(ctx, p, cfg) }
	return p.Run(ctx, args)
}
