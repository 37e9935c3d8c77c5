package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"briefrail/internal/authority"
	"briefrail/internal/jobs"
	"briefrail/internal/pg"
)

func (a *app) holdsVerb() *cobra.Command {
	var all bool
	cmd := &cobra.Command{Use: "holds", Short: "List what stops widening", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&all, "all", false, "the released ones too")
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, _ []string) error {
		holds, err := authority.Holds(ctx, s.pool, all)
		if err != nil {
			return err
		}
		return s.show(listView("authority.holds", holds, func(h authority.Hold) string { return strconv.FormatInt(h.ID, 10) }, func(p *page) {
			if len(holds) == 0 {
				p.line("nothing stops widening")
				return
			}
			holdsTable(p, holds)
		}))
	})
	return cmd
}

func holdsTable(p *page, holds []authority.Hold) {
	p.row("HOLD", "SCOPE", "WATCH", "RAISED", "RELEASED BY", "CLASS", "DETAILS")
	for _, h := range holds {
		scope := h.Scope
		if scope == "" {
			scope = "every scope"
		}
		p.row(h.ID, scope, h.Watch, h.RaisedAt, text(h.ReleasedBy), text(h.Class), p.brief(string(h.Details)))
	}
}

// holdClasses are the reasons for which a hold may be released.
func holdClasses() []string {
	return []string{"availability", "data_integrity", "routing", "compatibility", "external_consequence"}
}

func (a *app) releaseVerb() *cobra.Command {
	var class string
	cmd := &cobra.Command{Use: "release HOLD --class CLASS", Short: "End a hold, for a reason of one class", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&class, "class", "", "what it was about: "+strings.Join(holdClasses(), ", "))
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || id < 1 {
			return fail(exitUsage, "%.40q is not the number of a hold: railctl authority holds", args[0])
		}
		if !slices.Contains(holdClasses(), class) {
			return fail(exitUsage, "--class %q: use %s", class, strings.Join(holdClasses(), ", "))
		}
		err = s.govern(ctx, c, act, func(ctl authority.Controller) error {
			was, err := ctl.Release(ctx, id, class)
			if err == nil && !was {
				return fail(exitNotFound, "there is no hold %d that stops anything", id)
			}
			return err
		})
		return s.done(err, c, "authority.release", args[0], map[string]any{"hold": id, "class": class}, "release hold %d", id)
	})
	return cmd
}

const retireWriterHelp = `Retire a writer for good, once it has authority over nothing and no window is open to
it. With --revoke its roles lose every right to change a table of this database and
their login, which needs a session that may. What is left is told: a table that it owns
needs another owner first. From then on the canary of every worker tries its paths.`

// retiredWriter is the answer of retire-writer.
type retiredWriter struct {
	Writer string            `json:"writer"`
	Left   []authority.Right `json:"rights_left"`
	DryRun bool              `json:"dry_run"`
}

func (a *app) retireWriterVerb() *cobra.Command {
	var revoke bool
	cmd := &cobra.Command{Use: "retire-writer NAME", Short: "Retire a writer for good", Long: retireWriterHelp, Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&revoke, "revoke", false, "take the rights and the login of its roles away")
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		if err := s.mayRetire(ctx, args[0]); err != nil {
			return err
		}
		if err := s.confirm(c, true, "retire writer %s for good", args[0]); err != nil {
			return err
		}
		out := retiredWriter{Writer: args[0], DryRun: c.dryRun}
		err := s.govern(ctx, c, act, func(ctl authority.Controller) (err error) {
			var admin pg.DB
			if revoke {
				admin = ctl.DB
			}
			out.Left, err = ctl.RetireWriter(ctx, out.Writer, admin)
			return err
		})
		if err != nil {
			return err
		}
		out.Left = list(out.Left)
		return s.show(view{kind: "authority.retire-writer", data: out, names: []string{out.Writer}, table: func(p *page) { retiredTable(p, out) }})
	})
	return cmd
}

// mayRetire refuses the name of no other writer. The rail's own would leave it as it is,
// and --revoke would then lock the rail out of its ledger.
func (s *session) mayRetire(ctx context.Context, name string) error {
	writers, err := authority.Writers(ctx, s.pool)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(writers, func(w authority.Writer) bool { return w.Name == name })
	switch {
	case i < 0:
		return fail(exitNotFound, "there is no writer %.80q: railctl authority writers list", name)
	case writers[i].Kind == "rail":
		return fail(exitRefused, "writer %s is the rail itself, which does not retire: railctl authority remove takes the fence away", name)
	}
	return nil
}

func retiredTable(p *page, out retiredWriter) {
	p.line("writer %s %s", out.Writer, would(out.DryRun, "would be retired", "is retired"))
	if len(out.Left) == 0 {
		p.line("its roles can change nothing here, and cannot log in")
		return
	}
	p.section("Still there, to be taken away:")
	p.row("ROLE", "OF", "RIGHTS")
	for _, r := range out.Left {
		p.row(r.Role, r.What, r.Rights)
	}
}

func (a *app) pathsVerbs() *cobra.Command {
	show := &cobra.Command{
		Use: "list", Short: "List the ways of writers, and what the canary found", Args: cobra.NoArgs,
		RunE: a.withDB(func(ctx context.Context, s *session, _ []string) error {
			paths, err := authority.Paths(ctx, s.pool)
			if err != nil {
				return err
			}
			return s.show(listView("authority.paths.list", paths, func(x authority.Path) string { return x.Path }, func(p *page) {
				p.row("WRITER", "KIND", "PATH", "TRIED", "REFUSED", "ANSWER")
				for _, x := range paths {
					p.row(x.Writer, x.Kind, x.Path, x.TriedAt, refusedText(x.Refused), text(x.Answer))
				}
			}))
		}),
	}
	return group("paths", "Look at the ways by which writers wrote, and have them tried", show, a.pathsWatch())
}

func refusedText(refused *bool) string {
	switch {
	case refused == nil:
		return ""
	case *refused:
		return "yes"
	}
	return "NO"
}

func (a *app) pathsWatch() *cobra.Command {
	kinds := []string{authority.PathRole, authority.PathRoute, authority.PathScript, authority.PathJob}
	var path authority.Path
	cmd := &cobra.Command{
		Use: "watch WRITER PATH --kind KIND", Short: "Have a way of a writer tried from its retirement on", Args: cobra.ExactArgs(2),
		Long: "Have a way of a writer tried from its retirement on. Roles of the database and addresses are tried by the canary of the workers;\nwhat a script or a job is, only your own code knows.",
	}
	cmd.Flags().StringVar(&path.Kind, "kind", "", "what it is: "+strings.Join(kinds, ", "))
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		path.Writer, path.Path = args[0], args[1]
		if !slices.Contains(kinds, path.Kind) {
			return fail(exitUsage, "--kind %q: use %s", path.Kind, strings.Join(kinds, ", "))
		}
		err := s.govern(ctx, c, act, func(ctl authority.Controller) error { return ctl.WatchPath(ctx, path) })
		return s.done(err, c, "authority.paths.watch", path.Path, path, "have %s %s of writer %s tried", path.Kind, path.Path, path.Writer)
	})
	return cmd
}

// overAll makes a verb that goes over every scope at once. noun is what it counts; ask
// and did say what it would do and has done, did with a %s for how many.
func (a *app) overAll(cmd *cobra.Command, noun, ask, did string, do func(authority.Controller, context.Context) (int, error)) *cobra.Command {
	cmd.Args = cobra.NoArgs
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, _ []string) error {
		if err := s.confirm(c, true, "%s", ask); err != nil {
			return err
		}
		n := 0
		err := s.govern(ctx, c, act, func(ctl authority.Controller) (err error) {
			n, err = do(ctl, ctx)
			return err
		})
		return s.done(err, c, "authority."+cmd.Name(), "all", map[string]int{noun + "s": n}, did, count(n, noun))
	})
	return cmd
}

func (a *app) removeVerb() *cobra.Command {
	return a.overAll(&cobra.Command{
		Use: "remove", Short: "Take the fence away, once every bucket is the rail's and every other writer retired",
		Long: "Take the fence away, once every bucket is the rail's and every other writer retired, so that nobody pays for it\nany more. Guarded tables are freed first, by their owner. The history stays.",
	}, "fence", "take every fence away", "take %s away", authority.Controller.Remove)
}

func (a *app) closeRestoredVerb() *cobra.Command {
	return a.overAll(&cobra.Command{
		Use: "close-restored", Short: "Close every scope of a ledger that came out of a backup",
		Long: "Close every scope of a ledger that came out of a backup: it may be older than what was decided after it. Each stays\nclosed, without a deadline, until \"open-restored\" opens it under an epoch above every one that was handed out.",
	}, "scope", "close every scope until each is opened again", "close %s", authority.Controller.CloseRestored)
}

func (a *app) openRestoredVerb() *cobra.Command {
	var writer string
	var epoch int64
	cmd := &cobra.Command{Use: "open-restored SCOPE --writer NAME --epoch N", Short: "Open a scope that a restore closed, under a new epoch", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&writer, "writer", "", "`name` of the writer that has authority")
	cmd.Flags().Int64Var(&epoch, "epoch", 0, "`number` above every epoch that was handed out, in the lost history too")
	c := a.changeFlags(cmd)
	cmd.RunE = a.changing(c, func(ctx context.Context, s *session, act jobs.Actor, args []string) error {
		scope, err := fenceScope(args[0])
		if err != nil {
			return err
		}
		if writer == "" || epoch < 1 {
			return fail(exitUsage, "say --writer NAME and --epoch N, above every epoch that was handed out")
		}
		if err := s.confirm(c, true, "open %s for %s under epoch %d", scope, writer, epoch); err != nil {
			return err
		}
		return s.step(ctx, c, act, "authority.open-restored", func(ctl authority.Controller) (authority.Change, error) {
			return ctl.OpenRestored(ctx, scope, writer, epoch)
		})
	})
	return cmd
}
