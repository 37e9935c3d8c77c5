package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"briefrail/deploy"
)

const rolesHelp = `The database roles of the rail, one for each program and one for the application,
and every right they have. The text holds no passwords: set them yourself. Apply it
before the first migration and again after each; it changes only what differs, and
takes back from these roles whatever it does not name.`

func (a *app) rolesVerbs() *cobra.Command {
	text := &cobra.Command{
		Use: "print", Short: "Print the SQL, for a tool of your own", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.stdout, deploy.Roles)
			return err
		},
	}
	apply := &cobra.Command{
		Use: "apply", Short: "Run it on the database", Args: cobra.NoArgs, Long: rolesHelp + `

The connection must be a superuser's, or one of a role with CREATEROLE that owns the
database and what is in schema ops; once the roles are there, rail_migrator's.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.rolesApply(cmd.Context()) },
	}
	roles := group("roles", "Make the database roles and give them their rights", text, apply)
	roles.Long = rolesHelp
	return roles
}

type rolesApplied struct {
	Database string `json:"database"`
	By       string `json:"by"` // the role that applied it
}

// rolesApply is one transaction: when it fails, nothing has changed.
func (a *app) rolesApply(ctx context.Context) (err error) {
	conn, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := conn.Exec(ctx, deploy.Roles); err != nil {
		return fmt.Errorf("roles are not applied, nothing was changed: %w%s", err, hintOf(err))
	}
	var done rolesApplied
	if err := conn.QueryRow(ctx, `SELECT current_database(), session_user`).Scan(&done.Database, &done.By); err != nil {
		return err
	}
	return a.show(view{kind: "roles.apply", data: done, names: []string{done.Database}, table: func(p *page) {
		p.line("roles applied to database %s by %s; passwords are yours to set", done.Database, done.By)
	}})
}

// hintOf is what the server advises; a missing right says by itself who may.
func hintOf(err error) string {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return ""
	}
	if pe.Hint != "" {
		return " (" + pe.Hint + ")"
	}
	if pe.Code == "42501" {
		return " (connect as a superuser, or as a role with CREATEROLE that owns the database and schema ops)"
	}
	return ""
}
