package main

import (
	"context"
	"fmt"
	"math/big"

	"github.com/spf13/cobra"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

const modelWalkHelp = `Take random walks, each step chosen uniformly among those offered, and count those that
meet a state that counts for the property: a bad one, a wanted one, or one from which
nothing leads back. Beside the sample stands the exact probability.`

// What walks may cost: a step takes some tens of nanoseconds.
const (
	mostWalks = 10_000_000
	mostSteps = 10_000
)

func (a *app) modelWalkVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use: "walk", Short: "Sample random walks, beside their exact probability", Long: modelWalkHelp, Args: cobra.NoArgs,
		Example: `  railctl model walk --model router --with none --property "recovers to ROUTED"`,
	}
	v := variantFlags(cmd).searchFlags()
	var property string
	o := model.WalkOptions{}
	fs := cmd.Flags()
	fs.StringVar(&property, "property", "", "`name` of the property, as \"model check\" prints it")
	fs.IntVar(&o.Walks, "walks", 10_000, "`how many` walks")
	fs.IntVar(&o.Steps, "steps", 20, "`how many` steps each")
	fs.Uint32Var(&o.Seed, "seed", 42, "`seed` of the generator")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := v.find()
		if err == nil {
			_, err = propertyOf(c, property)
		}
		if err == nil {
			err = between("walks", o.Walks, 1, mostWalks)
		}
		if err == nil {
			err = between("steps", o.Steps, 1, mostSteps)
		}
		if err != nil {
			return err
		}
		return a.modelWalk(cmd.Context(), v, c, property, o)
	}
	return cmd
}

// between refuses a number that is out of bounds.
func between(flag string, n, least, most int) error {
	if n < least || n > most {
		return fail(exitUsage, "--%s %d: give %d to %d", flag, n, least, most)
	}
	return nil
}

// walkShown is a sample, and of what.
type walkShown struct {
	Model string `json:"model"`
	Title string `json:"title"`
	Seed  uint32 `json:"seed"`
	specs.WalkReport
}

func (a *app) modelWalk(ctx context.Context, v *variant, c specs.Checked, property string, o model.WalkOptions) error {
	var r specs.WalkReport
	err := a.searched(ctx, v, c, func(ctx context.Context, search model.Options) (err error) {
		r, err = c.Walk(ctx, search, property, o)
		return err
	})
	if err != nil {
		return err
	}
	shown := walkShown{v.model, c.Title(), o.Seed, r}
	return a.show(view{kind: "model.walk", data: shown, names: []string{fmt.Sprint(r.Hits)}, table: func(p *page) {
		p.line("%s", c.Title())
		p.row("Property", r.Property)
		p.row("Walks", fmt.Sprintf("%s of %s, seed %d", grouped(r.Walks.Walks), steps(r.Steps), o.Seed))
		p.row("Hits", fmt.Sprintf("%s (%.2f %%), median step %v", grouped(r.Hits), 100*float64(r.Hits)/float64(r.Walks.Walks), r.Median))
		p.row("Exactly", fmt.Sprintf("%.3f %%, median step %d", 100*r.Exact, r.ExactMedian))
	}})
}

func (a *app) modelSchedulesVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedules", Short: "Count the distinct sequences of steps", Args: cobra.NoArgs,
		Long: "Count the distinct sequences of up to so many steps from the initial state, the empty\none included. They are counted along the transitions, not listed.",
	}
	v := variantFlags(cmd).searchFlags()
	var most int
	cmd.Flags().IntVar(&most, "steps", 16, "`how many` steps at most")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := v.find()
		if err == nil {
			err = between("steps", most, 0, mostSteps)
		}
		if err != nil {
			return err
		}
		return a.modelSchedules(cmd.Context(), v, c, most)
	}
	return cmd
}

// schedulesShown is the count, whose digits may be many.
type schedulesShown struct {
	Model     string   `json:"model"`
	Title     string   `json:"title"`
	Steps     int      `json:"steps"`
	Schedules *big.Int `json:"schedules"`
}

func (a *app) modelSchedules(ctx context.Context, v *variant, c specs.Checked, most int) error {
	shown := schedulesShown{Model: v.model, Title: c.Title(), Steps: most}
	err := a.searched(ctx, v, c, func(ctx context.Context, o model.Options) (err error) {
		shown.Schedules, err = c.Schedules(ctx, o, most)
		return err
	})
	if err != nil {
		return err
	}
	return a.show(view{kind: "model.schedules", data: shown, names: []string{shown.Schedules.String()}, table: func(p *page) {
		p.line("%s", shown.Title)
		p.line("%s schedules of up to %s", shown.Schedules, steps(most))
	}})
}
