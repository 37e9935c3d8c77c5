package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"briefrail/internal/audit"
	"briefrail/internal/authority"
	"briefrail/internal/config"
	"briefrail/internal/outbox"
	"briefrail/internal/pg"
)

// The exit codes, documented by "railctl help exit-codes".
const (
	exitOK        = 0
	exitError     = 1
	exitUsage     = 2
	exitNotFound  = 3
	exitRefused   = 4
	exitTimeout   = 5
	exitUnhealthy = 6
)

const exitHelp = `railctl ends with one of these codes, which will not change their meaning:

  0  done, or healthy
  1  failed: the database is away, its schema does not fit, or something broke;
     also when a question was answered with no, and when "migrate status" found a
     migration whose text is not the one that was applied, or "model check" a broken
     property, or an end before every state was searched
  2  wrong use, or a configuration that is not valid: nothing was changed
  3  not found: no such matter, run, fact, scope or change
  4  refused by the ledger: the row is not in a state that allows it; also "wait"
     for a matter that is parked, and a change of authority that ended aborted
  5  timed out: "wait" or --timeout ran out; what was sent may still have happened
     where the error says that its outcome is unknown
  6  unhealthy: "check" found a broken invariant, "doctor" a failed test, or
     "restore-check" a step that is due`

// failure is an error that knows its exit code.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(code int, format string, args ...any) error {
	return &failure{code: code, err: fmt.Errorf(format, args...)}
}

// code chooses the exit code of an error.
func (a *app) code(ctx context.Context, err error) int {
	var known *failure
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &known):
		return known.code
	case !a.accepted || isConfig(err):
		return exitUsage
	case errors.Is(err, audit.ErrNotFound), errors.Is(err, outbox.ErrNoFact), errors.Is(err, authority.ErrUnknown), pg.SQLState(err) == "RF404":
		return exitNotFound
	case errors.As(err, &connect), ctx.Err() != nil:
		return exitError
	case pg.SQLState(err) == "23514", strings.HasPrefix(pg.SQLState(err), "RF"): // a CHECK or a guard, by name, or the write fence
		return exitRefused
	case pg.SQLState(err) == "57014", pg.SQLState(err) == "55P03", errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	return exitError
}

func isConfig(err error) bool {
	return errors.Is(err, config.ErrInvalid) || errors.Is(err, config.ErrNoDatabase) || errors.Is(err, pg.ErrDSN)
}

// exitCodes is a help topic, no command.
func exitCodes() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitHelp}
}

// isNotFound reports whether err ends the program with exitNotFound on purpose.
func isNotFound(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.code == exitNotFound
}
