package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"briefrail/internal/authority"
	"briefrail/internal/jobs"
	"briefrail/internal/rail"
)

const authorityHelp = `Exactly one writer has authority over the Briefs of a scope, under an epoch; these
verbs move it, a scope at a time, and say where it is. A scope is matters/bucket-00 to
-63 (or its number alone), system, or fixture/NAME.

  plan → shadow → close → drain → seal → verify → advance, or abort

cross takes a change from wherever it is to its end. Every step is one transaction,
named by the change's id, and may be repeated. "doctor" says the one next safe step,
and docs/ADOPTING.md how a whole system moves.`

func (a *app) authorityVerbs() *cobra.Command {
	cmd := group("authority", "Move the right to write Briefs, a bucket at a time",
		a.authorityStatus(), a.authorityDoctor(), a.authorityBucket(), a.authorityChanges(), a.authorityShow(), a.authorityBlockers(),
		a.writersVerbs(), a.authorityConfigure(), a.authorityGuard(), a.authorityUnguard(),
		a.authorityPlan(), a.authorityShadow(), a.authorityVerify(), a.authorityCross(), a.authorityRollback(), a.authorityExercised())
	cmd.AddCommand(a.stepVerbs()...)
	cmd.AddCommand(a.holdsVerb(), a.releaseVerb(), a.retireWriterVerb(), a.pathsVerbs(), a.removeVerb(), a.closeRestoredVerb(), a.openRestoredVerb())
	cmd.Long = authorityHelp
	return cmd
}

// within is a transaction where a controller wants something that begins one.
type within struct{ pgx.Tx }

// BeginTx begins a part of the same transaction.
func (w within) BeginTx(ctx context.Context, _ pgx.TxOptions) (pgx.Tx, error) { return w.Begin(ctx) }

// controller acts outside a transaction of ours: each of its steps is one of its own.
func (s *session) controller(act jobs.Actor) authority.Controller {
	return authority.Controller{DB: s.pool, Actor: authority.Actor{Name: act.Name, Reason: act.Reason}}
}

// govern runs one step in a transaction, which a dry run takes back.
func (s *session) govern(ctx context.Context, c *change, act jobs.Actor, fn func(authority.Controller) error) error {
	return s.apply(ctx, c, func(tx pgx.Tx) error {
		ctl := s.controller(act)
		ctl.DB = within{tx}
		return fn(ctl)
	})
}

// fenceScope reads a scope; the number of a bucket is short for its scope.
func fenceScope(text string) (string, error) {
	if n, err := strconv.Atoi(text); err == nil {
		if n < 0 || n >= rail.Buckets {
			return "", fail(exitUsage, "bucket %d: there are 0 to %d", n, rail.Buckets-1)
		}
		return bucketScope(n), nil
	}
	name, ok := strings.CutPrefix(text, "matters/bucket-")
	n, err := strconv.Atoi(name)
	switch {
	case ok && err == nil && len(name) == 2 && n >= 0 && n < rail.Buckets:
	case text == "system", strings.HasPrefix(text, "fixture/") && len(text) > len("fixture/"):
	default:
		return "", fail(exitUsage, "%.80q is not a scope: want matters/bucket-00 to -63 (or 0 to 63), system, or fixture/NAME", text)
	}
	return text, nil
}

func bucketScope(n int) string {
	if n < 10 {
		return "matters/bucket-0" + strconv.Itoa(n)
	}
	return "matters/bucket-" + strconv.Itoa(n)
}

// changeID reads the id of a change.
func changeID(text string) (rail.UUID, error) {
	id, err := rail.ParseUUID(text)
	if err != nil {
		return id, fail(exitUsage, "change: %w", err)
	}
	return id, nil
}

func (a *app) authorityBucket() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bucket MATTER", Short: "Say which scope a matter is in, and who has authority over it", Args: cobra.ExactArgs(1),
		Long: "Say which scope a matter is in, and who has authority over it. MATTER is FIRM/MATTER or a matter's UUID; the ledger need not know it.",
	}
	cmd.RunE = a.withDB(func(ctx context.Context, s *session, args []string) error {
		text := args[0]
		if _, matter, ok := strings.Cut(text, "/"); ok {
			text = matter
		}
		id, err := rail.ParseUUID(text)
		if err != nil {
			return fail(exitUsage, "matter: %w", err)
		}
		place, err := authority.FenceOfMatter(ctx, s.pool, id)
		if err != nil {
			return err
		}
		return s.show(view{kind: "authority.bucket", data: place, names: []string{place.Scope}, table: func(p *page) {
			p.row("Scope", place.Scope)
			p.row("Writer", place.Writer)
			p.row("Epoch", place.Epoch)
			p.row("State", place.State)
			p.row("Endpoint", place.Endpoint)
		}})
	})
	return cmd
}
