// Command railworker decides facts, claims jobs, has their frames built and lands
// them under a fence. Any number may run beside one PostgreSQL.
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
		Component: config.Worker, Short: "Keeps Briefs current: facts in, fenced frames out", Version: version,
		Env: env, Stdout: stdout, Stderr: stderr,
	}
	p.Serve = func(ctx context.Context, cfg *config.Config) error { return start(ctx, p, cfg) }
	return p.Run(ctx, args)
}
