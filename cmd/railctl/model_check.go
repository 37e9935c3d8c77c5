package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

const modelCheckHelp = `Search every state of a model, or of all with their defaults, and judge its properties:

  never        no reachable state may be like this
  reachable    some state must be like this, so that a model that can do nothing does not pass
  recoverable  from every reachable state some path leads to a state like this

A broken property comes with a shortest trace. Exit code 1 when one is broken; also when
the search was ended (Ctrl-C, --max-states) before it was complete: what it found until
then is printed and true, and nothing else is claimed. 5 when --timeout ended it.`

func (a *app) modelCheckVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Search every state and judge the properties", Long: modelCheckHelp, Args: cobra.NoArgs,
		Example: "  railctl model check --model router --without fence\n  railctl model check --model job --version v1 --workers 3 --faults 3 -o json",
	}
	v := variantFlags(cmd).searchFlags()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if v.model == "" {
			return a.checkModels(cmd.Context(), v)
		}
		c, err := v.find()
		if err != nil {
			return err
		}
		r, err := a.checkModel(cmd.Context(), v, c)
		if r.States == 0 {
			return err
		}
		shown := a.show(view{kind: "model.check", data: r, names: brokenNames(r), table: func(p *page) { reportTable(p, r) }})
		return errors.Join(shown, outcome([]specs.Report{r}, err))
	}
	return cmd
}

// checkModels checks all of them as they are without options.
func (a *app) checkModels(ctx context.Context, v *variant) error {
	for _, name := range []string{"workers", "faults", "demands", "attempts", "with", "without", "version", "gate"} {
		if v.flags.Changed(name) {
			return fail(exitUsage, "--%s needs --model: the models differ in what they have", name)
		}
	}
	if err := v.sound(); err != nil {
		return err
	}
	reports, names := []specs.Report{}, []string{}
	var stopped error
	for _, e := range specs.List() {
		c, err := specs.Find(e.Name, specs.Options{Faults: specs.Default})
		if err != nil {
			return err
		}
		r, err := a.checkModel(ctx, v, c)
		if r.States > 0 {
			reports = append(reports, r)
			names = append(names, brokenNames(r)...)
		}
		if err != nil && stopped == nil {
			stopped = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	shown := a.show(view{kind: "model.check.all", data: map[string]any{"models": reports}, names: names, table: func(p *page) {
		for i, r := range reports {
			if i > 0 {
				p.line("")
			}
			reportTable(p, r)
		}
	}})
	return errors.Join(shown, outcome(reports, stopped))
}

// checkModel searches one variant. A search that was ended has both a report and
// an error.
func (a *app) checkModel(ctx context.Context, v *variant, c specs.Checked) (r specs.Report, err error) {
	err = a.searched(ctx, v, c, func(ctx context.Context, o model.Options) (err error) {
		r, err = c.Check(ctx, o)
		return err
	})
	return r, err
}

// outcome is the exit of a check: an end before its time is told before what was
// broken until then.
func outcome(reports []specs.Report, stopped error) error {
	broken, all := 0, 0
	for _, r := range reports {
		all += len(r.Properties)
		broken += len(brokenNames(r))
	}
	switch {
	case stopped != nil && broken > 0:
		return fmt.Errorf("%w; broken in what was found: %d of %d properties", stopped, broken, all)
	case stopped != nil:
		return stopped
	case broken > 0:
		return fail(exitError, "%d of %d properties are broken", broken, all)
	}
	return nil
}

func brokenNames(r specs.Report) []string {
	var names []string
	for _, v := range r.Properties {
		if !v.OK && !v.Open {
			names = append(names, v.Name)
		}
	}
	return names
}

func reportTable(p *page, r specs.Report) {
	p.line("%s", r.Title)
	p.line("%s states, %s transitions, depth %d%s", grouped(r.States), grouped(r.Transitions), r.Depth, endedEarly(r))
	p.line("")
	p.row("PROPERTY", "KIND", "VERDICT", "BAD STATES")
	for _, v := range r.Properties {
		p.row(v.Name, v.Kind, verdictWord(v), grouped(v.BadStates))
	}
	for _, v := range r.Properties {
		if v.OK || v.Open {
			continue
		}
		p.section("%s is broken%s", v.Name, wayThere(v))
		for i, step := range v.Trace {
			p.line("  %d  %s", i+1, step)
		}
	}
}

func endedEarly(r specs.Report) string {
	if r.Complete {
		return ""
	}
	return "; the search was ended before it was complete"
}

// verdictWord is the judgement of one property.
func verdictWord(v model.Verdict) string {
	switch {
	case v.OK:
		return "ok"
	case v.Open:
		return "open"
	}
	return "BROKEN"
}

// wayThere says how far the first bad state is.
func wayThere(v model.Verdict) string {
	switch {
	case v.Kind == model.Reachable:
		return ": no state is like this"
	case len(v.Trace) == 0:
		return " in the initial state"
	}
	return fmt.Sprintf(" after %s:", steps(len(v.Trace)))
}

// steps counts them.
func steps(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}

// propertyOf finds what is judged by its name.
func propertyOf(c specs.Checked, name string) (specs.Judged, error) {
	all := c.Properties()
	at := slices.IndexFunc(all, func(p specs.Judged) bool { return p.Name == name })
	if at >= 0 {
		return all[at], nil
	}
	var names []string
	for _, p := range all {
		names = append(names, fmt.Sprintf("%q", p.Name))
	}
	return specs.Judged{}, fail(exitUsage, "--property %q: the model has %s", name, strings.Join(names, ", "))
}
