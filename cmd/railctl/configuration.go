package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"briefrail/internal/config"
)

func (a *app) configVerbs() *cobra.Command {
	var of string
	show := &cobra.Command{
		Use: "show", Short: "Show every setting in force and where it comes from", Args: cobra.NoArgs,
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
	if _, err := a.loadFor(of); err != nil {
		return err
	}
	return a.show(view{
		kind: "config.validate", data: map[string]any{"program": of, "valid": true}, names: []string{of},
		table: func(p *page) { p.line("the configuration of %s is valid", of) },
	})
}

type settingShown struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	Origin  string `json:"origin"`
}

func (a *app) configShow(of string) error {
	cfg, err := a.loadFor(of)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := cfg.Show(&text); err != nil {
		return err
	}
	list, names := readShown(text.String())
	return a.show(view{kind: "config.show", data: list, names: names, table: func(p *page) {
		fmt.Fprint(p.tw, text.String())
	}})
}

// readShown reads back the table that config writes, whose cells hold no two
// spaces side by side at their edges.
func readShown(text string) (list []settingShown, names []string) {
	for line := range strings.Lines(text) {
		key, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		rest = strings.TrimLeft(rest, " ")
		i := strings.LastIndex(rest, "  ")
		if i < 0 || key == "SETTING" {
			continue
		}
		list = append(list, settingShown{key, strings.TrimRight(rest[:i], " "), rest[i+2:]})
		names = append(names, key)
	}
	return list, names
}
