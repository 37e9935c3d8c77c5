package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"briefrail/internal/config"
	"briefrail/internal/telemetry"
)

// The exit codes.
const (
	exitOK        = 0
	exitError     = 1
	exitUsage     = 2
	exitUnhealthy = 6
)

var (
	errUsage     = errors.New("wrong command line")
	errUnhealthy = errors.New("unhealthy")
)

type program struct {
	env            []string
	stdout, stderr io.Writer
}

// run is main without the process: tests drive it.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	p := program{env: env, stdout: stdout, stderr: stderr}
	root := p.command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return exitOK
	default:
		fmt.Fprintln(stderr, "railworker:", err)
		return exitCode(err)
	}
}

func exitCode(err error) int {
	switch {
	case errors.Is(err, errUnhealthy):
		return exitUnhealthy
	case errors.Is(err, config.ErrInvalid), errors.Is(err, errUsage):
		return exitUsage
	}
	return exitError
}

func (p program) command() *cobra.Command {
	root := &cobra.Command{
		Use: "railworker", Short: "Keeps Briefs current: facts in, fenced frames out",
		SilenceUsage: true, SilenceErrors: true, Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", errUsage, err) })
	root.AddCommand(
		p.configured("run", "Run until SIGTERM or SIGINT", p.serve),
		p.configured("healthcheck", "Ask the running worker whether it is ready; for containers without a shell", p.healthcheck),
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
func (p program) configured(use, short string, f func(context.Context, *config.Config) error) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noArgs}
	config.AddFlags(c.Flags(), config.Worker)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := config.Load(config.Source{Component: config.Worker, Flags: c.Flags(), Env: p.env})
		if err != nil {
			return err
		}
		return f(c.Context(), cfg)
	}
	return c
}

func (p program) configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Show, check or document the configuration", Args: noArgs, RunE: func(c *cobra.Command, _ []string) error {
		return fmt.Errorf("%w: config needs show, validate or reference", errUsage)
	}}
	reference := &cobra.Command{
		Use: "reference", Short: "Every setting with its default, as Markdown", Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return config.Reference(p.stdout) },
	}
	c.AddCommand(
		p.configured("show", "Every setting, where it comes from; secrets are not shown", func(_ context.Context, cfg *config.Config) error {
			return cfg.Show(p.stdout)
		}),
		p.configured("validate", "Exit 0 when the configuration is sound, else 2 with every mistake", func(context.Context, *config.Config) error {
			_, err := fmt.Fprintln(p.stdout, "the configuration is sound")
			return err
		}),
		reference,
	)
	return c
}

func (p program) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs, RunE: func(*cobra.Command, []string) error {
		b := telemetry.Version(version, string(config.Worker))
		_, err := fmt.Fprintf(p.stdout, "railworker %s (%s, %s)\n", b.Version, b.Revision, b.GoVersion)
		return err
	}}
}

func (p program) healthcheck(ctx context.Context, cfg *config.Config) error {
	url, err := telemetry.ProbeURL(cfg.Admin.Listen, "/readyz")
	if err != nil {
		return err
	}
	if err := telemetry.Healthcheck(ctx, url); err != nil {
		return fmt.Errorf("%w: %w", errUnhealthy, err)
	}
	return nil
}
