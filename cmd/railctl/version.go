package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"briefrail/migrations"
)

type versionShown struct {
	Version   string `json:"version"`
	Go        string `json:"go"`
	SchemaMin int    `json:"schema_min"`
	SchemaMax int    `json:"schema_max"`
}

func (a *app) versionVerb() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionShown{version, runtime.Version(), migrations.MinVersion, migrations.MaxVersion}
			return a.show(view{kind: "version", data: v, names: []string{v.Version}, table: func(p *page) {
				p.line("railctl %s (%s), for schema versions %d to %d", v.Version, v.Go, v.SchemaMin, v.SchemaMax)
			}})
		},
	}
}
