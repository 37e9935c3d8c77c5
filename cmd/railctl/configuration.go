package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"briefrail/internal/config"
	"briefrail/internal/pg"
)

func (a *app) configVerbs() *cobra.Command {
	var of string
	show := &cobra.Command{
		Use: "show", Short: "Show every setting in force and where it comes from",
		Long: "Show every setting in force and where it comes from. Long values are cut short in the table: -o wide has them whole.", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.configShow(of) },
	}
	validate := &cobra.Command{
		Use: "validate", Short: "Check the configuration; exit code 2 when it is not valid", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.configValidate(of) },
	}
	for _, c := range []*cobra.Command{show, validate} {
		c.Flags().StringVar(&of, "for", string(config.Control), "`program` whose settings are meant: "+strings.Join(programs(), ", "))
	}
	reference := &cobra.Command{
		Use: "reference", Short: "Print the reference of all settings, as Markdown", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return config.Reference(a.stdout) },
	}
	return group("config", "Look at the configuration", show, validate, reference)
}

func programs() []string {
	return []string{string(config.Control), string(config.Worker), string(config.Relay)}
}

// loadFor loads the configuration as another program would from the same
// environment. Flags are railctl's own and count for railctl only, but --config.
func (a *app) loadFor(of string) (*config.Config, error) {
	if !slices.Contains(programs(), of) {
		return nil, fail(exitUsage, "--for %q: use %s", of, strings.Join(programs(), ", "))
	}
	return config.Load(config.Source{Component: config.Component(of), Flags: a.settings, Env: a.env})
}

func (a *app) configValidate(of string) error {
	cfg, err := a.loadFor(of)
	if err != nil {
		return err
	}
	// A string that cannot be read here, as its secret is elsewhere, says nothing of
	// the configuration.
	if dsn, err := cfg.Database.DSN(); err == nil {
		if err := pg.CheckDSN(dsn); err != nil {
			return fmt.Errorf("database.url: %w", err)
		}
	}
	return a.show(view{
		kind: "config.validate", data: map[string]any{"program": of, "valid": true}, names: []string{of},
		table: func(p *page) { p.line("the configuration of %s is valid", of) },
	})
}

func (a *app) configShow(of string) error {
	cfg, err := a.loadFor(of)
	if err != nil {
		return err
	}
	shown := cfg.Shown()
	return a.show(listView("config.show", shown, func(x config.Shown) string { return x.Setting }, func(p *page) {
		p.row("SETTING", "VALUE", "ORIGIN")
		for _, x := range shown {
			p.row(x.Setting, p.brief(x.Value), x.Origin)
		}
	}))
}
