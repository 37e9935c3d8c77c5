package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"briefrail/internal/jobs"
	"briefrail/internal/pg"
)

// change is how a mutation was asked for.
type change struct {
	reason, actor string
	dryRun, yes   bool
}

// changeFlags gives a verb the flags of a mutation.
func (a *app) changeFlags(cmd *cobra.Command) *change {
	c := &change{}
	fs := cmd.Flags()
	fs.StringVar(&c.reason, "reason", "", "why; goes into the audit log (needed unless --dry-run)")
	fs.StringVar(&c.actor, "actor", "", "who, for the audit log (default USER@HOST)")
	fs.BoolVar(&c.dryRun, "dry-run", false, "tell what would change, and change nothing")
	fs.BoolVarP(&c.yes, "yes", "y", false, "do not ask for confirmation")
	return c
}

// actorOf returns who acts and why, or a usage error.
func (a *app) actorOf(c *change) (jobs.Actor, error) {
	act := jobs.Actor{Name: strings.TrimSpace(c.actor), Reason: strings.TrimSpace(c.reason)}
	if act.Name == "" {
		act.Name = a.whoami()
	}
	if act.Reason == "" && c.dryRun {
		act.Reason = "dry run"
	}
	if act.Reason == "" {
		return act, fail(exitUsage, `a change needs --reason "why" (or try it with --dry-run)`)
	}
	return act, nil
}

// whoami is the person at the keyboard as far as the system knows: sudo hides it
// behind root, so its own variable comes first.
func (a *app) whoami() string {
	name := a.lookup("SUDO_USER")
	if name == "" {
		name = a.lookup("USER")
	}
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s@%s", orDash(name), host)
}

// changing makes the body of a verb that changes something. The reason is asked
// for before anything else happens.
func (a *app) changing(c *change, body func(ctx context.Context, s *session, act jobs.Actor, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		act, err := a.actorOf(c)
		if err != nil {
			return err
		}
		return a.withDB(func(ctx context.Context, s *session, args []string) error { return body(ctx, s, act, args) })(cmd, args)
	}
}

// confirm asks the person at the terminal. Where there is none, a change that
// reaches far needs --yes, and any other is taken as meant.
func (a *app) confirm(c *change, far bool, format string, args ...any) error {
	switch {
	case c.yes || c.dryRun:
		return nil
	case a.terminal:
		return a.ask(fmt.Sprintf(format, args...))
	case far:
		return fail(exitUsage, "this would "+format+": nobody is at a terminal to confirm it, so add --yes", args...)
	}
	return nil
}

func (a *app) ask(question string) error {
	a.hush()
	fmt.Fprintf(a.stderr, "This will %s. Go on? [y/N] ", oneLine(question))
	line, _ := bufio.NewReader(a.stdin).ReadString('\n') // the end of input is a no
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return fail(exitError, "nothing was changed")
}

// errDryRun rolls a dry run back.
var errDryRun = errors.New("dry run")

// apply runs a change in one transaction.
func (s *session) apply(ctx context.Context, c *change, fn func(tx pgx.Tx) error) error {
	defer s.working("changing").end()
	return s.commit(ctx, c, fn)
}

// commit is apply in silence. A dry run is the change itself, rolled back: its
// counts and its refusals are the true ones.
func (s *session) commit(ctx context.Context, c *change, fn func(tx pgx.Tx) error) error {
	err := pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		if !c.dryRun {
			return nil
		}
		if _, err := tx.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil { // what a commit would check
			return err
		}
		return errDryRun
	})
	switch {
	case errors.Is(err, errDryRun):
		return nil
	case errors.Is(err, pg.ErrUnknownOutcome):
		return fmt.Errorf("whether it was committed is not known, look with railctl audit list: %w", err)
	}
	return err
}

// would puts the words of a sentence into the mood of a dry run.
func would(dryRun bool, would, did string) string {
	if dryRun {
		return "dry run: " + would
	}
	return did
}
