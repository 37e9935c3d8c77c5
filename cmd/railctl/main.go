// Command railctl is the operator's hand on the rail: it tells what the ledger
// holds and why, and changes it only through the owners' own transitions.
//
// It owns its command line, its output (schema railctl/1) and its exit codes, and
// no table and no state: internal/audit reads, internal/jobs and internal/outbox
// act, and the database decides and writes the audit row. It does not promise that
// what it printed is still so: workers go on meanwhile.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

var version = "dev" // constant: set by the linker

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
