// Command railworker decides facts, claims jobs, has their frames built and lands
// them under a fence. Any number may run beside one PostgreSQL.
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
	p := daemon.Program{Component: config.Worker, Short: "Keeps Briefs current: facts in, fenced frames out", Version: version, Serve: start}
	os.Exit(p.Main(context.Background()))
}
