// Package daemon is what the rail's long-running programs have in common: their
// commands and exit codes, the two pools, the wait for a database whose schema
// fits, the admin listener's life, and the stop.
//
// It owns no table and decides nothing about the work: a program hands over the
// function that serves. Only programs may import it.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"briefrail/internal/config"
	"briefrail/internal/telemetry"
)

// The exit codes.
const (
	ExitOK        = 0
	ExitError     = 1
	ExitUsage     = 2
	ExitUnhealthy = 6
)

var (
	errUsage     = errors.New("wrong command line")
	errUnhealthy = errors.New("unhealthy")
)

// Program is one long-running program, named after its component.
type Program struct {
	Component      config.Component
	Short          string // what it does, one line
	Version        string
	Env            []string
	Stdout, Stderr io.Writer
	// Serve runs until its context ends. A stop that was asked for is no error.
	Serve func(ctx context.Context, p Program, cfg *config.Config) error
}

// Main is Run with the process's own arguments, environment, output and signals.
func (p Program) Main(ctx context.Context) int {
	// The second signal is immediate: after the first, the default handling is back.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop)
	p.Env, p.Stdout, p.Stderr = os.Environ(), os.Stdout, os.Stderr
	return p.Run(ctx, os.Args[1:])
}

// Run is main without the process. It returns the exit code.
func (p Program) Run(ctx context.Context, args []string) int {
	root := p.command()
	root.SetArgs(args)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(p.Stderr, "%s: %v\n", p.Component, err)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errUnhealthy):
		return ExitUnhealthy
	case errors.Is(err, config.ErrInvalid), errors.Is(err, errUsage):
		return ExitUsage
	}
	return ExitError
}

func (p Program) command() *cobra.Command {
	root := &cobra.Command{
		Use: string(p.Component), Short: p.Short,
		SilenceUsage: true, SilenceErrors: true, Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", errUsage, err) })
	root.AddCommand(
		p.configured("run", "Run until SIGTERM or SIGINT", func(ctx context.Context, cfg *config.Config) error { return p.Serve(ctx, p, cfg) }),
		p.healthcheckCommand(),
		p.configCommand(), p.versionCommand(),
	)
	return root
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: %s takes no argument %q", errUsage, c.CommandPath(), args[0])
	}
	return nil
}

// configured is a command that needs the whole configuration.
func (p Program) configured(use, short string, f func(context.Context, *config.Config) error) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noArgs}
	config.AddFlags(c.Flags(), p.Component)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := config.Load(config.Source{Component: p.Component, Flags: c.Flags(), Env: p.Env})
		if err != nil {
			return err
		}
		return f(c.Context(), cfg)
	}
	return c
}

func (p Program) configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Show, check or document the configuration", Args: noArgs, RunE: func(c *cobra.Command, _ []string) error {
		return fmt.Errorf("%w: config needs show, validate or reference", errUsage)
	}}
	reference := &cobra.Command{
		Use: "reference", Short: "Every setting with its default, as Markdown", Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return config.Reference(p.Stdout) },
	}
	c.AddCommand(
		p.configured("show", "Every setting, where it comes from; secrets are not shown", func(_ context.Context, cfg *config.Config) error {
			return cfg.Show(p.Stdout)
		}),
		p.configured("validate", "Exit 0 when the configuration is sound, else 2 with every mistake", func(_ context.Context, cfg *config.Config) error {
			if err := checkDSN(cfg); err != nil {
				return err
			}
			_, err := fmt.Fprintln(p.Stdout, "the configuration is sound")
			return err
		}),
		reference,
	)
	return c
}

func (p Program) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs, RunE: func(*cobra.Command, []string) error {
		b := telemetry.Version(p.Version, string(p.Component))
		_, err := fmt.Fprintf(p.Stdout, "%s %s (%s, %s)\n", p.Component, b.Version, b.Revision, b.GoVersion)
		return err
	}}
}

// healthcheckCommand asks for readiness, which is for those who wait for a program, or
// for liveness, which is for those who end one that does not answer: an outage of the
// database is no reason to end anything.
func (p Program) healthcheckCommand() *cobra.Command {
	probe := "/readyz"
	c := p.configured("healthcheck", "Ask the running program whether it is ready, or with --live whether it is alive; for containers without a shell",
		func(ctx context.Context, cfg *config.Config) error { return healthcheck(ctx, cfg, probe) })
	c.Flags().BoolFunc("live", "ask whether its loops turn, whatever becomes of the database: for platforms that replace what is unhealthy", func(s string) error {
		live, err := strconv.ParseBool(s)
		if live {
			probe = "/livez"
		}
		return err
	})
	return c
}

func healthcheck(ctx context.Context, cfg *config.Config, probe string) error {
	url, err := telemetry.ProbeURL(cfg.Admin.Listen, probe)
	if err != nil {
		return err
	}
	if err := telemetry.Healthcheck(ctx, url); err != nil {
		return fmt.Errorf("%w: %w", errUnhealthy, err)
	}
	return nil
}
