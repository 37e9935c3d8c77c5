package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"briefrail/internal/pg"
	"briefrail/migrations"
)

func (a *app) migrateVerbs() *cobra.Command {
	up := &cobra.Command{
		Use: "up", Short: "Bring the schema up to date; does nothing where it is", Args: cobra.NoArgs,
		Long: `Bring the schema up to date. Each migration is one transaction; a second migrator
waits for the first. The connection must be direct, not one of a transaction-mode
pooler. Daemons never migrate by themselves.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.migrateUp(cmd.Context()) },
	}
	status := &cobra.Command{
		Use: "status", Short: "List the migrations and whether they are applied", Args: cobra.NoArgs,
		Long: `List the migrations and whether they are applied. Exit code 1 when the text of an
applied one is not this program's: "changed" means that the schema may be another.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.migrateStatus(cmd.Context()) },
	}
	text := &cobra.Command{
		Use: "print [N]", Short: "Print the SQL of migration N, or of all, for a tool of your own", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.migratePrint(args) },
	}
	return group("migrate", "Keep the schema of the database", up, status, text)
}

func opsSet() pg.Set {
	return pg.Set{FS: migrations.FS, Schema: migrations.Schema, Lo: migrations.MinVersion, Hi: migrations.MaxVersion}
}

type migrated struct {
	Applied int `json:"applied"`
	Version int `json:"version"`
}

func (a *app) migrateUp(ctx context.Context) (err error) {
	conn, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	start := time.Now()
	m := pg.Migrator{Set: opsSet(), OnStart: func(version int, name string) {
		a.say("%s  applying %d: %s", span(time.Since(start)), version, name)
	}}
	n, err := m.Up(ctx, conn)
	if err != nil {
		return pooled(err)
	}
	version, err := pg.Version(ctx, conn, migrations.Schema)
	if err != nil {
		return err
	}
	return a.show(view{kind: "migrate.up", data: migrated{n, version}, names: []string{strconv.Itoa(version)}, table: func(p *page) {
		p.line("schema %s is at version %d; %d migration(s) applied", migrations.Schema, version, n)
	}})
}

type migration struct {
	Version   int        `json:"version"`
	Name      string     `json:"name"`
	State     string     `json:"state"` // applied, pending, changed
	AppliedAt *time.Time `json:"applied_at"`
}

func stateOf(m pg.Migration) string {
	switch {
	case m.Changed:
		return "changed"
	case m.Applied:
		return "applied"
	}
	return "pending"
}

func (a *app) migrateStatus(ctx context.Context) (err error) {
	conn, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	found, err := opsSet().Status(ctx, conn)
	if err != nil {
		return err
	}
	list, names := make([]migration, len(found)), make([]string, len(found))
	for i, m := range found {
		list[i] = migration{m.Version, m.Name, stateOf(m), m.AppliedAt}
		names[i] = m.Name
	}
	err = a.show(view{kind: "migrate.status", data: list, names: names, table: func(p *page) {
		p.row("VERSION", "STATE", "APPLIED", "NAME")
		for _, m := range list {
			p.row(m.Version, m.State, m.AppliedAt, m.Name)
		}
	}})
	if err != nil {
		return err
	}
	return unchanged(list)
}

// unchanged fails where a migration was applied in another text than ours.
func unchanged(list []migration) error {
	for _, m := range list {
		if m.State == "changed" {
			return fail(exitError, "migration %d is not the text that was applied: use the program that applied it, or find out who changed it", m.Version)
		}
	}
	return nil
}

func (a *app) migratePrint(args []string) error {
	newest, err := opsSet().Newest()
	if err != nil {
		return err
	}
	from, to := 1, newest
	if len(args) == 1 {
		if from, err = strconv.Atoi(args[0]); err != nil || from < 1 || from > newest {
			return fail(exitUsage, "migration %q: want a number from 1 to %d", args[0], newest)
		}
		to = from
	}
	for v := from; v <= to; v++ {
		sql, err := opsSet().Print(v)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.stdout, sql); err != nil {
			return err
		}
	}
	return nil
}
