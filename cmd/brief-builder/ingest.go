package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"briefrail/internal/brief"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

func migrate(ctx context.Context, c *call) (err error) {
	flags, dsn := c.newFlags()
	if _, err := c.parse(flags); err != nil {
		return err
	}
	o, err := c.database(*dsn)
	if err != nil {
		return err
	}
	o.StatementTimeout = 0
	conn, err := pg.Connect(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	n, err := brief.Migrate(ctx, conn)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "schema record: %d migration(s) applied\n", n)
	return nil
}

func ingest(ctx context.Context, c *call) (err error) {
	flags, dsn := c.newFlags()
	firm := flags.String("firm", "", "UUID of the firm")
	matter := flags.String("matter", "", "UUID of the matter")
	format := flags.StringP("output", "o", "text", "text or json")
	var opts brief.IngestOptions
	flags.BoolVar(&opts.NewMatter, "new-matter", false, "also append the fact matter.created, once for a matter")
	flags.BoolVar(&opts.Replace, "replace", false, "a document replaces the live one of the same name")
	args, err := c.parse(flags, "DIR")
	if err != nil {
		return err
	}
	key, err := parseKey(*firm, *matter)
	if err != nil {
		return err
	}
	if *format != "text" && *format != "json" {
		return fmt.Errorf("%w: --output must be text or json", errUsage)
	}
	if err := folder(args[0]); err != nil {
		return err
	}
	o, err := c.database(*dsn)
	if err != nil {
		return err
	}
	conn, err := pg.Connect(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if err := brief.CheckSchema(ctx, conn); err != nil {
		return err
	}
	if *format == "text" {
		opts.Done = func(d brief.Ingested) { fmt.Fprintln(c.stdout, line(d)) }
	}
	docs, err := brief.Ingest(ctx, conn, key, os.DirFS(args[0]), opts)
	if pg.SQLState(err) == undefinedTable { // ours are there: the facts' table is not
		err = fmt.Errorf("this database has no ledger of the rail to hold the facts: run `railctl migrate up`: %w", err)
	}
	if *format == "json" {
		err = errors.Join(err, c.report(key, docs))
	}
	return err
}

const undefinedTable = "42P01"

// folder looks at DIR here, because a file system rooted in it calls it "." in its
// errors.
func folder(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("DIR: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("DIR: %s is not a folder", dir)
	}
	return nil
}

func parseKey(firm, matter string) (key rail.Key, err error) {
	if key.Firm, err = rail.ParseUUID(firm); err != nil {
		return key, fmt.Errorf("%w: --firm: %w", errUsage, err)
	}
	if key.Matter, err = rail.ParseUUID(matter); err != nil {
		return key, fmt.Errorf("%w: --matter: %w", errUsage, err)
	}
	return key, nil
}

func line(d brief.Ingested) string {
	s := fmt.Sprintf("%-8s  %s  %d page(s)  document %s", d.Outcome, d.Name, d.Pages, d.DocumentID)
	if d.Outcome != brief.OutcomePresent {
		s += "  fact " + d.EventID.String()
	}
	if d.EmptyPages > 0 {
		s += fmt.Sprintf("  (%d without text)", d.EmptyPages)
	}
	return s
}

func (c *call) report(key rail.Key, docs []brief.Ingested) error {
	if docs == nil {
		docs = []brief.Ingested{}
	}
	e := json.NewEncoder(c.stdout)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		rail.Key
		Documents []brief.Ingested `json:"documents"`
	}{key, docs})
}
