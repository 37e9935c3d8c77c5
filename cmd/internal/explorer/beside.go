package explorer

import (
	"slices"
	"strings"

	"briefrail/internal/model/specs"
)

// besideView is the same path in another variant.
type besideView struct {
	Here, There string
	Rows        []pairing
	Refused     int // step of the first difference, 0 for none
	Left, Right sideView
	Close       string
}

// sideView is where one of two replays ends.
type sideView struct {
	Name     string
	Ticket   ticket
	Violated []string
	URL      string
}

// besides are the variants that differ in one thing.
func (v *view) besides(p place) {
	add := func(turn, name string) {
		to := p
		to.play = false
		if to.beside = turn; p.beside == turn {
			to.beside = ""
		}
		v.Besides = append(v.Besides, choice{Name: name, URL: to.url() + "#beside", Current: p.beside == turn})
	}
	for _, t := range v.Turns {
		add(t.Name, map[bool]string{true: "without ", false: "with "}[t.On]+t.Name)
	}
	for _, group := range v.Groups {
		for _, c := range group {
			if !c.Current {
				add(c.Name, strings.ReplaceAll(c.Name, ":", " "))
			}
		}
	}
}

// played draws the path so far beside what becomes of it in the other variant.
func (p place) played(here specs.Checked, scenes []specs.Scene) (*besideView, error) {
	other := p
	var err error
	if other.design, err = p.design.turned(p.beside); err != nil {
		return nil, err
	}
	there, err := other.design.find()
	if err != nil {
		return nil, err
	}
	played, err := replay(here, scenes, p.path[:p.at], there)
	if err != nil {
		return nil, err
	}
	other.path, other.at, other.beside, other.check, other.play = played.path, len(played.path), "", false, false
	closed := p
	closed.beside = ""
	b := &besideView{
		Here: p.design.named(p.beside), There: other.design.named(p.beside), Rows: played.rows, Close: closed.url(),
		Left:  sideView{Ticket: draw(nil, scenes[p.at].State), Violated: scenes[p.at].Violated, URL: closed.url()},
		Right: sideView{Ticket: differing(scenes[p.at].State, played.scene.State), Violated: played.scene.Violated, URL: other.url()},
	}
	b.Left.Name, b.Right.Name = b.Here, b.There
	if at := slices.IndexFunc(played.rows, func(r pairing) bool { return r.Refused || r.Gone }); at >= 0 {
		b.Refused = at + 1
	}
	return b, nil
}

// named calls a design by the one thing that a turn is about.
func (d design) named(turn string) string {
	switch what, _, _ := strings.Cut(turn, ":"); {
	case what == "version":
		return "version " + d.Version
	case what == "gate":
		return "gate " + d.Gate
	case slices.Contains(d.Without, turn):
		return "without " + turn
	default:
		return "with " + turn
	}
}
