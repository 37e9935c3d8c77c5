package main

import (
	"context"

	"github.com/spf13/cobra"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

const modelTraceHelp = `Print a shortest way to the first state that breaks a property, or, for one of the kind
"reachable" that holds, to the first state that is wanted: each step with the state after
it. Without --property the first broken one is taken. Exit code 3 when there is no such
state.`

func (a *app) modelTraceVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use: "trace", Short: "Print a shortest trace, with the state after each step", Long: modelTraceHelp, Args: cobra.NoArgs,
		Example: `  railctl model trace --model router --without fence --property "ROUTED is final"`,
	}
	v := variantFlags(cmd).searchFlags()
	var property string
	cmd.Flags().StringVar(&property, "property", "", "`name` of the property, as \"model check\" prints it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := v.find()
		if err == nil && property != "" {
			_, err = propertyOf(c, property)
		}
		if err != nil {
			return err
		}
		return a.modelTrace(cmd.Context(), v, c, property)
	}
	return cmd
}

// traceShown is a trace with the states along it.
type traceShown struct {
	Model    string     `json:"model"`
	Title    string     `json:"title"`
	Property string     `json:"property"`
	Kind     model.Kind `json:"kind"`
	OK       bool       `json:"ok"`

	Initial []model.Field `json:"initial"`
	Steps   []stepShown   `json:"steps"`
}

// stepShown is one step and where it leads.
type stepShown struct {
	Step    int           `json:"step"`
	Label   string        `json:"label"`
	Fault   bool          `json:"fault"`
	State   []model.Field `json:"state"`
	Changed []string      `json:"changed"` // names of fields
}

func (a *app) modelTrace(ctx context.Context, v *variant, c specs.Checked, property string) error {
	r, stopped := a.checkModel(ctx, v, c)
	verdict, found := traced(r, property)
	switch {
	case !found && stopped != nil:
		return stopped
	case !found && property == "":
		return fail(exitNotFound, "%s: every property holds, so there is no trace: name one that is reachable with --property", r.Title)
	case !found:
		return fail(exitNotFound, "%s: no state among %s has to do with %q: there is no trace", r.Title, grouped(r.States), property)
	}
	shown, err := along(c, verdict)
	if err != nil {
		return err
	}
	shown.Model = r.Model
	return a.show(view{kind: "model.trace", data: shown, names: verdict.Trace, table: func(p *page) { traceTable(p, shown) }})
}

// traced is the verdict whose trace is wanted; a search that was ended may know
// it all the same.
func traced(r specs.Report, property string) (model.Verdict, bool) {
	for _, v := range r.Properties {
		broken := !v.OK && !v.Open
		if v.State >= 0 && (v.Name == property || (property == "" && broken)) {
			return v, true
		}
	}
	return model.Verdict{}, false
}

// along walks the trace once more, state by state.
func along(c specs.Checked, v model.Verdict) (traceShown, error) {
	before, err := c.Explore(nil)
	shown := traceShown{Title: c.Title(), Property: v.Name, Kind: v.Kind, OK: v.OK, Initial: before.State, Steps: []stepShown{}}
	for i := 0; i < len(v.Path) && err == nil; i++ {
		offer := before.Steps[v.Path[i]]
		var after specs.Scene
		after, err = c.Explore(v.Path[:i+1])
		shown.Steps = append(shown.Steps, stepShown{i + 1, offer.Label, offer.Fault, after.State, changed(before.State, after.State)})
		before = after
	}
	return shown, err
}

// changed names the fields that a step has changed. A state has the same fields in
// the same order all the time.
func changed(before, after []model.Field) []string {
	names := []string{}
	for i, f := range after {
		if i >= len(before) || before[i] != f {
			names = append(names, f.Name)
		}
	}
	return names
}

// traceTable leaves out the columns in which nothing happens, unless -o wide asks
// for them.
func traceTable(p *page, t traceShown) {
	p.line("%s", t.Title)
	p.line("%s: %s", t.Property, map[bool]string{true: "holds", false: "broken"}[t.OK])
	p.line("")
	moved := map[string]bool{}
	for _, s := range t.Steps {
		for _, name := range s.Changed {
			moved[name] = true
		}
	}
	keep := func(f model.Field) bool { return p.wide || moved[f.Name] }
	head := []any{"STEP", "WHAT HAPPENS"}
	for _, f := range t.Initial {
		if keep(f) {
			head = append(head, f.Name)
		}
	}
	p.row(head...)
	p.row(stateCells(0, blank, t.Initial, keep)...)
	for _, s := range t.Steps {
		label := s.Label
		if s.Fault {
			label += " (fault)"
		}
		p.row(stateCells(s.Step, label, s.State, keep)...)
	}
}

// stateCells is one line: a step and the state after it.
func stateCells(step int, label string, state []model.Field, keep func(model.Field) bool) []any {
	cells := []any{step, label}
	for _, f := range state {
		if keep(f) {
			cells = append(cells, f.Value)
		}
	}
	return cells
}
