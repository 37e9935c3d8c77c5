package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

const modelHelp = `Search the state machines on which the rail rests: every interleaving of the workers,
with every placement of a bounded number of faults. "model list" names the models and
their defences; every defence is on unless --with or --without says otherwise.

No database is needed, and nothing is changed.`

func (a *app) modelVerbs() *cobra.Command {
	cmd := group("model", "Search the state machines that the rail rests on", a.modelList(), a.modelCheckVerb(), a.modelTraceVerb(),
		a.modelWalkVerb(), a.modelSchedulesVerb(), a.modelGraphVerb(), a.modelExploreVerb())
	cmd.Long = modelHelp
	return cmd
}

func (a *app) modelList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the models, their bounds and their defences", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			entries := specs.List()
			return a.show(listView("model.list", entries, func(e specs.Entry) string { return e.Name }, func(p *page) { modelsTable(p, entries) }))
		},
	}
}

func modelsTable(p *page, entries []specs.Entry) {
	p.row("MODEL", "WORKERS", "FAULTS", "CHOICES", "ABOUT")
	for _, e := range entries {
		p.row(e.Name, bound(e.Workers), bound(e.Faults), strings.Join(slices.Concat(e.Versions, e.Gates), ", "), e.About)
	}
	for _, e := range entries {
		if len(e.Switches) == 0 {
			continue
		}
		p.section("Defences of %s:", e.Name)
		for _, s := range e.Switches {
			p.row("  "+s.Name, s.About)
		}
	}
}

// bound is the default of a number and its end.
func bound(b specs.Bound) string {
	if b.Most == 0 {
		return ""
	}
	return fmt.Sprintf("%d (at most %d)", b.Default, b.Most)
}

// variant are the flags that choose one variant of a model, and bound the search.
type variant struct {
	flags     *pflag.FlagSet
	model     string
	options   specs.Options
	maxStates int
	timeout   time.Duration
}

// variantFlags defines them; the models themselves know what may be given.
func variantFlags(cmd *cobra.Command) *variant {
	var names []string
	for _, e := range specs.List() {
		names = append(names, e.Name)
	}
	v := &variant{flags: cmd.Flags()}
	fs, o := v.flags, &v.options
	fs.StringVar(&v.model, "model", "", "the `model`: "+strings.Join(names, ", "))
	fs.IntVar(&o.Workers, "workers", 0, "`how many` work at once (default: the model's own)")
	fs.IntVar(&o.Faults, "faults", specs.Default, "`how many` faults may happen (default: the model's own)")
	fs.Lookup("faults").DefValue = "0" // no default is printed
	fs.IntVar(&o.Demands, "demands", 0, "`how many` demands are made, where the model has any (default: the model's own)")
	fs.IntVar(&o.Attempts, "attempts", 0, "`how many` attempts before a job is parked (default: the model's own)")
	fs.StringSliceVar(&o.With, "with", nil, "the only defences that are on, by `name,…`; or none")
	fs.StringSliceVar(&o.Without, "without", nil, "the defences that are off, by `name,…`")
	fs.StringVar(&o.Version, "version", "", "`version` of the design, where there are several")
	fs.StringVar(&o.Gate, "gate", "", "`gate` of the design, where there are several")
	return v
}

// searchFlags defines what bounds the search.
func (v *variant) searchFlags() *variant {
	v.flags.IntVar(&v.maxStates, "max-states", model.DefaultMaxStates, "end the search with an error before it holds more states than this `many`")
	v.flags.DurationVar(&v.timeout, "timeout", 0, "end the search after this time (0: never)")
	return v
}

// find makes the chosen variant. Whatever is wrong with the choice is wrong use.
func (v *variant) find() (specs.Checked, error) {
	if v.model == "" {
		return nil, fail(exitUsage, "--model is needed: railctl model list names them")
	}
	if err := v.sound(); err != nil {
		return nil, err
	}
	c, err := specs.Find(v.model, v.options)
	if err != nil {
		return nil, fail(exitUsage, "%w", err)
	}
	return c, nil
}

// sound refuses values that would silently stand for a default.
func (v *variant) sound() error {
	given := v.flags.Changed
	for name, n := range map[string]int{"workers": v.options.Workers, "demands": v.options.Demands, "attempts": v.options.Attempts} {
		if given(name) && n <= 0 {
			return fail(exitUsage, "--%s %d: give 1 or more", name, n)
		}
	}
	switch {
	case given("faults") && v.options.Faults < 0:
		return fail(exitUsage, "--faults %d: give 0 or more", v.options.Faults)
	case given("with") && len(v.options.With) == 0:
		return fail(exitUsage, "--with is empty: name the defences that are on, or none")
	case v.maxStates < 0 || (given("max-states") && v.maxStates == 0):
		return fail(exitUsage, "--max-states %d: give 1 or more", v.maxStates)
	case v.timeout < 0:
		return fail(exitUsage, "--timeout %s: give a time, or 0 for no end", v.timeout)
	}
	return nil
}

// bounded ends the search with --timeout, if there is one.
func (v *variant) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if v.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, v.timeout, fmt.Errorf("--timeout %s is up: %w", v.timeout, context.DeadlineExceeded))
}

// searching are the options of a search that tells on a terminal how far it is.
func (v *variant) searching(w *work) model.Options {
	start := time.Now()
	return model.Options{MaxStates: v.maxStates, Progress: func(states, _, depth int) {
		w.say("%s states, %s/s, depth %d", grouped(states), grouped(int(float64(states)/max(time.Since(start).Seconds(), 1e-3))), depth)
	}}
}

// searched runs a question that needs a search, and says on the terminal how far
// it is.
func (a *app) searched(ctx context.Context, v *variant, c specs.Checked, ask func(context.Context, model.Options) error) error {
	ctx, cancel := v.bounded(ctx)
	defer cancel()
	w := a.working(c.Title())
	err := ask(ctx, v.searching(w))
	w.end()
	return refused(err)
}

// refused gives an option that the checker refuses its exit code; a search that
// was ended is a failure.
func refused(err error) error {
	var limit *model.LimitError
	if errors.As(err, &limit) {
		return fail(exitError, "%w", err)
	}
	return err
}

// grouped writes a number with its thousands apart.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
