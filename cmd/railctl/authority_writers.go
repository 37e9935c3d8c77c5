package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"briefrail/internal/authority"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
)

func (a *app) writersVerbs() *cobra.Command {
	return group("writers", "Look at writers and make them known", a.writersList(), a.writersRegister())
}

func (a *app) writersList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the writers", Args: cobra.NoArgs,
		RunE: a.withDB(func(ctx context.Context, s *session, _ []string) error {
			writers, err := authority.Writers(ctx, s.pool)
			if err != nil {
				return err
			}
			return s.show(listView("authority.writers.list", writers, func(w authority.Writer) string { return w.Name }, func(p *page) {
				p.row("WRITER", "KIND", "STATUS", "ROLES", "IMPORTER", "ENDPOINT")
				for _, w := range writers {
					p.row(w.Name, w.Kind, w.Status, strings.Join(w.Roles, ", "), text(w.Importer), text(w.Endpoint))
				}
			}))
		}),
	}
}

// text is what a pointer points at, or nothing.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

const registerHelp = `Make a writer known, or change its roles and endpoint. Its database roles must exist;
they get what they need of schema ops to be admitted and to import. --importer is the
role that brings its frames in. The rail is known already: give its name to add roles
under which your daemons log in.`

func (a *app) writersRegister() *cobra.Command {
	w := authority.Writer{Kind: "external"}
	var importer, endpoint string
	cmd := &cobra.Command{Use: "register NAME --role ROLE", Short: "Make a writer known, or change its roles", Long: registerHelp, Args: cobra.ExactArgs(1)}
	fs := cmd.Flags()
	fs.StringSliceVar(&w.Roles, "role", nil, "`role` of the database under which it writes; may be given again")
	fs.StringVar(&importer, "importer", "", "`role` that imports its frames")
	fs.StringVar(&endpoint, "endpoint", "", "`URL` that clients are sent to while it has authority")
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		w.Name = args[0]
		if len(w.Roles) == 0 {
			return fail(exitUsage, "a writer has roles: --role ROLE")
		}
		if w.Name == "rail" {
			w.Kind = "rail"
		}
		w.Importer, w.Endpoint = given(importer), given(endpoint)
		err := s.govern(ctx, c, act, func(ctl authority.Controller) error { return ctl.RegisterWriter(ctx, w) })
		return s.done(err, c, "authority.writers.register", w.Name, w, "register writer %s", w.Name)
	})
	return cmd
}

func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// did is the answer of a change that has no row of its own to show.
type did struct {
	Changed any  `json:"changed"`
	DryRun  bool `json:"dry_run"`
}

// done tells that a change was made, or passes its error on.
func (s *session) done(err error, c *change, kind, name string, data any, format string, args ...any) error {
	if err != nil {
		return err
	}
	return s.show(view{kind: kind, data: did{data, c.dryRun}, names: []string{name}, table: func(p *page) {
		p.line(would(c.dryRun, "would ", "done: ")+format, args...)
	}})
}

const configureHelp = `Say who writes some scopes already; nothing moves. --all is every bucket of matters.
From here on the rail's own tables are fenced, and a landing in a scope of another
writer is refused. Tables of another writer come under the fence with "guard".`

// configured is the answer of configure.
type configured struct {
	Writer string   `json:"writer"`
	Scopes []string `json:"scopes"`
	New    int      `json:"new"` // that had no fence before
	DryRun bool     `json:"dry_run"`
}

func (a *app) authorityConfigure() *cobra.Command {
	out := configured{}
	var all bool
	cmd := &cobra.Command{Use: "configure --writer NAME [SCOPE...]", Short: "Say who writes some scopes already", Long: configureHelp}
	cmd.Flags().StringVar(&out.Writer, "writer", "", "`name` of the writer")
	cmd.Flags().BoolVar(&all, "all", false, "every bucket of matters")
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) (err error) {
		if out.Writer == "" || all == (len(args) > 0) {
			return fail(exitUsage, "say --writer NAME, and name scopes or --all")
		}
		if out.Scopes, err = scopesOf(args); err != nil {
			return err
		}
		if err := s.confirm(c, all, "fence %s for %s", count(len(out.Scopes), "scope"), out.Writer); err != nil {
			return err
		}
		out.DryRun = c.dryRun
		err = s.govern(ctx, c, act, func(ctl authority.Controller) (err error) {
			out.New, err = ctl.Configure(ctx, out.Scopes, out.Writer)
			return err
		})
		if err != nil {
			return err
		}
		return s.show(view{kind: "authority.configure", data: out, names: out.Scopes, table: func(p *page) {
			p.line("%s %s for %s, %d of them new", would(c.dryRun, "would fence", "fenced"), count(len(out.Scopes), "scope"), out.Writer, out.New)
		}})
	})
	return cmd
}

// scopesOf reads scopes; none means every bucket.
func scopesOf(args []string) (scopes []string, err error) {
	for _, arg := range args {
		scope, err := fenceScope(arg)
		if err != nil {
			return nil, err
		}
		scopes = append(scopes, scope)
	}
	for n := 0; n < rail.Buckets && len(args) == 0; n++ {
		scopes = append(scopes, bucketScope(n))
	}
	return scopes, nil
}

const guardHelp = `Put a table of an old writer under the fence: whatever writes a row of it, raw SQL
included, is judged at its commit. The session must be of the table's owner. Each row
names its matter in --key (a uuid), or is of one --scope. --sequence names a bigint
that orders the writer's decisions, with an index on (ops.matter_bucket(KEY), SEQUENCE):
it is what an import goes by. --epoch names a bigint that tells under which epoch a row
was written. All 64 buckets need a fence first.`

func (a *app) authorityGuard() *cobra.Command {
	var g authority.Guard
	cmd := &cobra.Command{Use: "guard TABLE --key COLUMN --writer NAME", Short: "Put a table of an old writer under the fence", Long: guardHelp, Args: cobra.ExactArgs(1)}
	fs := cmd.Flags()
	fs.StringVar(&g.Key, "key", "", "`column` that holds the matter's UUID")
	fs.StringVar(&g.Scope, "scope", "", "the `scope` that every row is of, where there is no key")
	fs.StringVar(&g.Writer, "writer", "", "`name` of the writer")
	fs.StringVar(&g.Sequence, "sequence", "", "`column` that orders the writer's decisions")
	fs.StringVar(&g.Epoch, "epoch", "", "`column` with the epoch that a row was written under")
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		g.Table = args[0]
		if g.Writer == "" || (g.Key == "") == (g.Scope == "") {
			return fail(exitUsage, "say --writer NAME, and --key COLUMN or --scope SCOPE")
		}
		err := s.govern(ctx, c, act, func(ctl authority.Controller) error { return ctl.Guard(ctx, g) })
		return s.done(err, c, "authority.guard", g.Table, g, "guard %s for writer %s", g.Table, g.Writer)
	})
	return cmd
}

func (a *app) authorityUnguard() *cobra.Command {
	cmd := &cobra.Command{
		Use: "unguard TABLE", Short: "Free the table of a retired writer", Args: cobra.ExactArgs(1),
		Long: "Free the table of a retired writer. The session must be of the table's owner.",
	}
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		if err := s.confirm(c, true, "take the fence from %s", args[0]); err != nil {
			return err
		}
		err := s.govern(ctx, c, act, func(ctl authority.Controller) error { return ctl.Unguard(ctx, args[0]) })
		return s.done(err, c, "authority.unguard", args[0], args[0], "unguard %s", args[0])
	})
	return cmd
}
