package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"briefrail/internal/config"
)

const about = `railctl reads and changes the ledger of the rail.

Every change needs a --reason, is written to the audit log in the same transaction,
and can be tried with --dry-run first. MATTER is FIRM/MATTER, or the matter's UUID
alone where only one firm has it.

The database comes from RAIL_DATABASE_URL, RAIL_DATABASE_URL_FILE or the file of
--config; never from a flag, which everybody on the machine could read.`

// root builds the tree of verbs.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "railctl", Short: "The operator's hand on the rail", Long: about,
		SilenceErrors: true, SilenceUsage: true, Version: version,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.accept() },
	}
	root.SetVersionTemplate("railctl {{.Version}}\n")
	a.globalFlags(root.PersistentFlags())
	root.AddCommand(
		a.statusVerb(), a.explainVerb(), a.matterVerbs(), a.dispatchVerbs(), a.runsVerbs(), a.outboxVerbs(), a.dlqVerbs(),
		a.waitVerb(), a.consoleVerb(), a.demoCommand(), a.adoptCommand(), a.awsFakeVerb(), a.checkVerb(), a.doctorVerb(), a.epochVerbs(), a.authorityVerbs(), a.restoreVerb(), a.auditVerbs(),
		a.modelVerbs(), a.migrateVerbs(), a.rolesVerbs(), a.configVerbs(), a.versionVerb(), exitCodes(),
	)
	sortFlags(root)
	return root
}

// sortFlags keeps flags in the order in which they were defined: what is asked
// for most comes first.
func sortFlags(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.PersistentFlags().SortFlags = false
	for _, c := range cmd.Commands() {
		sortFlags(c)
	}
}

// formats are the values of --output.
func formats() []string { return []string{"table", "wide", "json", "yaml", "name"} }

// globalFlags defines the flags of every verb. Each setting has a flag too, hidden
// because few are ever needed here.
func (a *app) globalFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&a.format, "output", "o", "table", "output `form`: "+strings.Join(formats(), ", "))
	fs.Var(alias{fs, "database-statement-timeout"}, "timeout", "longest time for one statement, like 30s (default 30s)")
	a.settings = pflag.NewFlagSet("settings", pflag.ContinueOnError)
	config.AddFlags(a.settings, config.Control)
	a.settings.VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != "config" })
	fs.AddFlagSet(a.settings)
}

// alias is a flag that sets another one.
type alias struct {
	fs    *pflag.FlagSet
	other string
}

// Set implements pflag.Value.
func (v alias) Set(s string) error { return v.fs.Set(v.other, s) }

// String implements pflag.Value.
func (v alias) String() string { return "" }

// Type implements pflag.Value.
func (v alias) Type() string { return "duration" }

// accept runs once the command line has been understood.
func (a *app) accept() error {
	if !slices.Contains(formats(), a.format) {
		return fail(exitUsage, "--output %q: use %s", a.format, strings.Join(formats(), ", "))
	}
	a.accepted = true
	return nil
}

// group is a verb that only holds others.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fail(exitUsage, "%s needs one of: %s", cmd.CommandPath(), strings.Join(names(cmd), ", "))
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}

func names(cmd *cobra.Command) (out []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			out = append(out, c.Name())
		}
	}
	return out
}

// say talks to the person, never into the data.
func (a *app) say(format string, args ...any) {
	a.hush()
	fmt.Fprintf(a.stderr, format+"\n", args...)
}
