package explorer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

// view is everything that the page draws.
type view struct {
	Title   string
	Problem string // the page says only this, and links Home
	Home    string

	Models  []choice
	About   string
	Numbers []numberField
	Turns   []turn     // defences
	Groups  [][]choice // versions, gates
	Fixed   []pair     // of the form that starts over with other numbers
	Hidden  []pair     // of forms that go on from here

	Unchecked []pair // Hidden without the verdicts, for the form that asks for them
	Path      string // of forms that go on from here
	At        int

	Ticket   ticket
	Said     string
	Violated []string
	Reached  []string

	Offers []offered
	Full   bool // the path is as long as it may be
	Trail  []trodden
	Undo   string
	Redo   string
	Start  string
	Play   string
	Stop   string
	Auto   bool

	Verdicts *verdicts
	Besides  []choice
	Beside   *besideView

	Link    string
	Command string
}

// choice is a link to something else of the same kind.
type choice struct {
	Name, About, URL string
	Current          bool
}

// numberField is a bound of the search.
type numberField struct {
	Name               string
	Value, Least, Most int
}

// turn is a defence that can be switched.
type turn struct {
	Name, About string
	On          bool
}

// offered is a step that can be taken, with the path that takes it.
type offered struct {
	N     int
	Label string
	Fault bool
	Path  string
}

// trodden is a step of the path.
type trodden struct {
	N        int
	Label    string
	Fault    bool
	URL      string
	Now      bool
	Ahead    bool
	Violated []string
}

// move is a way along the path; without URL there is none.
type move struct{ URL, Label, Key, Char string }

func newMove(url, label, key, char string) move { return move{url, label, key, char} }

// verdicts is the outcome of a check.
type verdicts struct {
	specs.Report
	Rows []verdictRow
}

// verdictRow is the judgement of one property.
type verdictRow struct {
	model.Verdict
	Word, Play string
}

// moved carries out a wish: it returns the address that it leads to, empty for a
// place that is only to be shown.
func (s *server) moved(ctx context.Context, p place) (string, error) {
	if p.turn == "" && !p.checked {
		return "", nil
	}
	here, err := p.design.find()
	if err != nil {
		return "", err
	}
	to := p
	to.turn, to.checked, to.play = "", false, false
	if p.turn != "" {
		return turnedTo(here, p, to)
	}
	r, err := s.checks.report(ctx, here)
	if err != nil {
		return "", err
	}
	to.check = true
	for _, v := range r.Properties {
		if !v.OK && !v.Open && v.State >= 0 && len(v.Path) <= mostSteps {
			to.path, to.at, to.play = v.Path, 0, len(v.Path) > 0
			break
		}
	}
	return to.url(), nil
}

// turnedTo goes on in another variant, as far along the path as it offers the same
// steps.
func turnedTo(here specs.Checked, p, to place) (string, error) {
	var err error
	if to.design, err = p.design.turned(p.turn); err != nil {
		return "", err
	}
	there, err := to.design.find()
	if err != nil {
		return "", err
	}
	if to.path, err = carried(here, p.path[:p.at], there); err != nil {
		return "", err
	}
	to.at = len(to.path)
	return to.url(), nil
}

// view draws a place.
func (s *server) view(ctx context.Context, p place) (view, error) {
	c, err := p.design.find()
	if err != nil {
		return view{}, err
	}
	scenes := make([]specs.Scene, len(p.path)+1) // the work grows with the square of the path, which has an end
	for i := range scenes {
		if scenes[i], err = c.Explore(p.path[:i]); err != nil {
			return view{}, err
		}
	}
	v := view{Title: c.Title(), Home: "./", Hidden: p.pairs(), Path: written(p.path), At: p.at, Link: p.url(), Command: p.design.command()}
	v.choices(p)
	v.stand(p, scenes)
	v.walk(p, scenes)
	if p.check {
		if v.Verdicts, err = s.judged(ctx, p, c); err != nil {
			return view{}, err
		}
	}
	if p.beside != "" {
		v.Beside, err = p.played(c, scenes)
	}
	return v, err
}

// choices draws what can be chosen.
func (v *view) choices(p place) {
	d := p.design
	unchecked := p
	unchecked.check = false
	v.Unchecked = unchecked.pairs()
	v.Fixed = slices.DeleteFunc(d.pairs(), func(x pair) bool {
		return slices.ContainsFunc(d.bounds(), func(b bounded) bool { return b.name == x.Name })
	})
	for _, e := range specs.List() {
		v.Models = append(v.Models, choice{Name: e.Name, About: e.About, URL: "./?model=" + e.Name, Current: e.Name == d.entry.Name})
	}
	v.About = d.entry.About
	for _, b := range d.bounds() {
		if b.bound.Most > 0 {
			v.Numbers = append(v.Numbers, numberField{b.name, *b.value, b.least, b.bound.Most})
		}
	}
	for _, s := range d.entry.Switches {
		v.Turns = append(v.Turns, turn{s.Name, s.About, !slices.Contains(d.Without, s.Name)})
	}
	v.group("version", d.entry.Versions, d.Version)
	v.group("gate", d.entry.Gates, d.Gate)
	v.besides(p)
}

// group draws alternatives of the whole design.
func (v *view) group(what string, names []string, current string) {
	var group []choice
	for _, name := range names {
		group = append(group, choice{Name: what + ":" + name, About: what + " " + name, Current: name == current})
	}
	if len(group) > 0 {
		v.Groups = append(v.Groups, group)
	}
}

// stand draws the state and what may follow.
func (v *view) stand(p place, scenes []specs.Scene) {
	now := scenes[p.at]
	var before []model.Field
	v.Said = "The initial state."
	if p.at > 0 {
		before = scenes[p.at-1].State
	}
	v.Ticket = draw(before, now.State)
	if p.at > 0 {
		v.Said = fmt.Sprintf("Step %d: %s", p.at, told(now.Trace[p.at-1], v.Ticket))
	}
	v.Violated, v.Reached = now.Violated, now.Reached
	if len(now.Violated) > 0 {
		v.Said += ". Broken: " + strings.Join(now.Violated, ", ") + "."
	}
	v.Full = p.at == mostSteps
	for i, o := range now.Steps {
		v.Offers = append(v.Offers, offered{i + 1, o.Label, o.Fault, written(append(slices.Clone(p.path[:p.at]), i))})
	}
}

// walk draws the path, and the ways along it.
func (v *view) walk(p place, scenes []specs.Scene) {
	for i, choice := range p.path {
		offer := scenes[i].Steps[choice]
		v.Trail = append(v.Trail, trodden{
			N: i + 1, Label: offer.Label, Fault: offer.Fault, URL: p.upTo(i + 1).url(),
			Now: i+1 == p.at, Ahead: i+1 > p.at, Violated: missing(scenes[i+1].Violated, scenes[i].Violated),
		})
	}
	if p.at > 0 {
		v.Undo, v.Start = p.upTo(p.at-1).url(), p.upTo(0).url()
	}
	if p.at < len(p.path) {
		next := p.upTo(p.at + 1)
		next.play = p.play && next.at < len(p.path)
		v.Redo, v.Auto = next.url(), p.play
		play := p
		play.play = true
		v.Play = play.url()
		v.Stop = p.upTo(p.at).url()
	}
}

// missing are the names that are not among the others.
func missing(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(others, n) })
}

// judged draws the verdicts, each broken one with a link that plays its trace.
func (s *server) judged(ctx context.Context, p place, c specs.Checked) (*verdicts, error) {
	r, err := s.checks.report(ctx, c)
	if err != nil {
		return nil, err
	}
	out := &verdicts{Report: r}
	for _, v := range r.Properties {
		row := verdictRow{Verdict: v, Word: "broken"}
		switch {
		case v.OK:
			row.Word = "holds"
		case v.Open:
			row.Word = "open"
		}
		if v.State >= 0 && len(v.Path) > 0 && len(v.Path) <= mostSteps {
			to := p
			to.path, to.at, to.play = v.Path, 0, true
			row.Play = to.url()
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

// command is the same variant for the command line.
func (d design) command() string {
	words := []string{"railctl model check"}
	for _, x := range d.pairs() {
		words = append(words, "--"+x.Name+" "+x.Value)
	}
	return strings.Join(words, " ")
}

// grouped writes a number with its thousands apart.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
