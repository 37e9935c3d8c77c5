package main

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

const modelGraphHelp = `Write every state and transition as a picture's source: states that break a property
are filled, faults are dashed.

  railctl model graph --model batch | dot -Tsvg > batch.svg`

func (a *app) modelGraphVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "graph", Short: "Write the graph for Graphviz or Mermaid", Long: modelGraphHelp, Args: cobra.NoArgs}
	v := variantFlags(cmd).searchFlags()
	var format string
	cmd.Flags().StringVar(&format, "format", specs.Formats()[0], "`form` of the graph: "+strings.Join(specs.Formats(), ", "))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := v.find()
		switch {
		case err != nil:
			return err
		case !slices.Contains(specs.Formats(), format):
			return fail(exitUsage, "--format %q: use %s", format, strings.Join(specs.Formats(), ", "))
		case a.format != "table":
			return fail(exitUsage, "-o %s: a graph is written in the form of --format only", a.format)
		}
		return a.modelGraph(cmd.Context(), v, c, format)
	}
	return cmd
}

// modelGraph writes nothing unless the graph is whole.
func (a *app) modelGraph(ctx context.Context, v *variant, c specs.Checked, format string) error {
	var b bytes.Buffer
	err := a.searched(ctx, v, c, func(ctx context.Context, o model.Options) error { return c.Graph(ctx, o, format, &b) })
	if err != nil {
		return err
	}
	_, err = b.WriteTo(a.stdout)
	return err
}
