package specs

import (
	"context"
	"fmt"
	"io"
	"math/big"

	"briefrail/internal/model"
)

// Checked is one variant of a model, without its types: what programs work with.
type Checked interface {
	// Title says which variant this is.
	Title() string

	// Properties lists what is judged, in the order of a Report.
	Properties() []Judged

	// Check searches and judges. When the search is stopped or reaches its limit,
	// both the report of the part that was found and the error are returned.
	Check(ctx context.Context, o model.Options) (Report, error)

	// Schedules counts the sequences of up to so many actions, the empty one too.
	Schedules(ctx context.Context, o model.Options, steps int) (*big.Int, error)

	// Walk samples random walks and gives the exact probability beside the sample.
	Walk(ctx context.Context, o model.Options, property string, w model.WalkOptions) (WalkReport, error)

	// Graph writes every state and transition in a format of Formats.
	Graph(ctx context.Context, o model.Options, format string, w io.Writer) error

	// Explore follows steps from the initial state, each given by its place among
	// those offered, and shows where it ends.
	Explore(path []int) (Scene, error)

	// Actions names the steps of a path, and those offered at its end, by what
	// they are: the same in every variant of a model, unlike their places and
	// labels.
	Actions(path []int) (taken, offered []string, err error)
}

// Formats are those that Graph writes.
func Formats() []string { return []string{"dot", "mermaid"} }

// Report is the outcome of a check.
type Report struct {
	Model       string          `json:"model"`
	Title       string          `json:"title"`
	States      int             `json:"states"`
	Transitions int             `json:"transitions"`
	Depth       int             `json:"depth"`
	Complete    bool            `json:"complete"`
	Properties  []model.Verdict `json:"properties"`
}

// Broken reports whether a property is known to be violated.
func (r Report) Broken() bool {
	for _, v := range r.Properties {
		if !v.OK && !v.Open {
			return true
		}
	}
	return false
}

// WalkReport is a sample of random walks beside what it tends to.
type WalkReport struct {
	Property string `json:"property"`
	model.Walks
	Exact       float64   `json:"exact"`        // probability of a hit within the steps
	ExactMedian int       `json:"exact_median"` // of the step of the first hit
	ByStep      []float64 `json:"by_step"`      // probability of a hit by each step, from step 0
}

// Scene is a state as people look at it.
type Scene struct {
	Title string        `json:"title"`
	Trace []string      `json:"trace"` // the labels of the steps that led here
	State []model.Field `json:"state"`
	Steps []Offer       `json:"steps"`

	// Violated names the Never properties that this state breaks, Reached the
	// others whose wanted state it is.
	Violated []string `json:"violated"`
	Reached  []string `json:"reached"`
}

// Offer is one step that can be taken.
type Offer struct {
	Label string `json:"label"`
	Fault bool   `json:"fault"`
}

// checked gives a typed model the form without types.
type checked[S, A comparable] struct {
	title string
	model model.Model[S, A]
}

func (c checked[S, A]) Title() string { return c.title }

func (c checked[S, A]) Check(ctx context.Context, o model.Options) (Report, error) {
	g, err := model.Search(ctx, c.model, o)
	if g == nil {
		return Report{}, err
	}
	return Report{
		Model: c.model.Name, Title: c.title, States: g.States(), Transitions: g.Transitions(), Depth: g.Depth(),
		Complete: g.Complete(), Properties: g.Verdicts(),
	}, err
}

func (c checked[S, A]) Schedules(ctx context.Context, o model.Options, steps int) (*big.Int, error) {
	g, err := model.Search(ctx, c.model, o)
	if err != nil {
		return nil, err
	}
	return g.Schedules(steps)
}

func (c checked[S, A]) Walk(ctx context.Context, o model.Options, property string, w model.WalkOptions) (WalkReport, error) {
	g, err := model.Search(ctx, c.model, o)
	if err != nil {
		return WalkReport{}, err
	}
	walks, err := g.Walk(property, w)
	if err != nil {
		return WalkReport{}, err
	}
	exact, err := g.Exact(property, w.Steps)
	if err != nil {
		return WalkReport{}, err
	}
	return WalkReport{Property: property, Walks: walks, Exact: exact.Probability(), ExactMedian: exact.Median, ByStep: exact.ByStep}, nil
}

func (c checked[S, A]) Graph(ctx context.Context, o model.Options, format string, w io.Writer) error {
	write := map[string]func(*model.Graph[S, A], io.Writer) error{"dot": (*model.Graph[S, A]).DOT, "mermaid": (*model.Graph[S, A]).Mermaid}[format]
	if write == nil {
		return fmt.Errorf("no graph format %q: there are %q", format, Formats())
	}
	g, err := model.Search(ctx, c.model, o)
	if err != nil {
		return err
	}
	return write(g, w)
}

func (c checked[S, A]) Explore(path []int) (Scene, error) {
	scene := Scene{Title: c.title, Trace: []string{}, Steps: []Offer{}, Violated: []string{}, Reached: []string{}}
	s := c.model.Initial
	for i, choice := range path {
		to, label, err := c.take(s, choice)
		if err != nil {
			return Scene{}, fmt.Errorf("step %d of the path: %w", i+1, err)
		}
		s, scene.Trace = to, append(scene.Trace, label)
	}
	scene.State = c.model.Fields(s)
	c.model.Next(s, func(a A, to S) {
		scene.Steps = append(scene.Steps, Offer{Label: c.model.Label(s, a, to), Fault: c.model.Fault != nil && c.model.Fault(a)})
	})
	for _, p := range c.model.Properties {
		switch {
		case !p.At(s):
		case p.Kind == model.Never:
			scene.Violated = append(scene.Violated, p.Name)
		default:
			scene.Reached = append(scene.Reached, p.Name)
		}
	}
	return scene, nil
}

// take does the step of that place among those offered.
func (c checked[S, A]) take(s S, choice int) (to S, label string, err error) {
	offered := 0
	c.model.Next(s, func(a A, next S) {
		if offered == choice {
			to, label = next, c.model.Label(s, a, next)
		}
		offered++
	})
	if choice < 0 || choice >= offered {
		return to, "", fmt.Errorf("choice %d: %d steps are offered there, numbered from 0", choice, offered)
	}
	return to, label, nil
}
