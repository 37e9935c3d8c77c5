// Command outbox-relay sends facts from the outbox to a bus or a queue, as nudges of
// ids only. Any number may run beside one PostgreSQL; they share the work evenly.
//
// Exit codes: 0 after a stop that was asked for, 1 on an error, 2 for a mistake in
// the configuration or the command line, 6 when healthcheck finds it unhealthy.
package main

import (
	"context"
	"os"

	"briefrail/cmd/internal/daemon"
	"briefrail/internal/config"
)

// constant: set by the linker
var version = "dev"

func main() {
	p := daemon.Program{Component: config.Relay, Short: "Sends facts from the outbox to a bus or a queue", Version: version, Serve: start}
	os.Exit(p.Main(context.Background()))
}
