package explorer

import (
	"slices"
	"strings"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

// pairing is one step of a path and what becomes of it in another variant.
type pairing struct {
	N     int
	Label string
	Fault bool

	Row      string // the first field of the state after it: the row's own
	There    string // what is done there in its place
	RowThere string

	Refused bool // the same worker at the same point is offered something else
	Gone    bool // there is no such step there any more
}

// replayed is a path played in another variant.
type replayed struct {
	rows  []pairing
	path  []int       // there
	scene specs.Scene // where that ends
}

// replay plays the scenes of a path in another variant: the same steps by what they
// are, as neither places nor words are the same there. Where a step is not offered,
// the worker takes the first step that it has instead, if it stands at the same
// point; a fault that cannot happen has no substitute.
func replay(here specs.Checked, scenes []specs.Scene, path []int, there specs.Checked) (replayed, error) {
	taken, _, err := here.Actions(path)
	if err != nil {
		return replayed{}, err
	}
	var out replayed
	if out.scene, err = there.Explore(nil); err != nil {
		return out, err
	}
	for i, action := range taken {
		scene := out.scene
		_, offered, err := there.Actions(out.path)
		if err != nil {
			return out, err
		}
		offer := scenes[i].Steps[path[i]]
		row := pairing{N: i + 1, Label: offer.Label, Fault: offer.Fault, Row: stamp(scenes[i+1])}
		at := slices.Index(offered, action)
		if at < 0 {
			at = substitute(scenes[i], offer, scene)
			row.Refused, row.Gone = at >= 0, at < 0
		}
		if at >= 0 {
			row.There = scene.Steps[at].Label
			out.path = append(out.path, at)
		}
		if out.scene, err = there.Explore(out.path); err != nil {
			return out, err
		}
		row.RowThere = stamp(out.scene)
		out.rows = append(out.rows, row)
	}
	return out, nil
}

// stamp is what a state says of the row first.
func stamp(s specs.Scene) string {
	if len(s.State) == 0 {
		return ""
	}
	return s.State[0].Value
}

// substitute is the place of the step that a worker takes where its own is not
// offered, -1 for none.
func substitute(here specs.Scene, offer specs.Offer, there specs.Scene) int {
	who := actor(offer.Label, here.State)
	if offer.Fault || who.Name == "" || !slices.Contains(there.State, who) {
		return -1
	}
	return slices.IndexFunc(there.Steps, func(o specs.Offer) bool { return !o.Fault && actor(o.Label, there.State) == who })
}

// actor is the worker that a label speaks of first, with where it stands; empty for
// none.
func actor(label string, state []model.Field) model.Field {
	for _, f := range state {
		rest, its := strings.CutPrefix(label, f.Name)
		if its && isWorker(f.Name) && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "'s ")) {
			return f
		}
	}
	return model.Field{}
}

// isWorker reports whether a field is about a worker: they are called A, B, C, ...,
// where there are several kinds with the kind before it.
func isWorker(name string) bool {
	letter := name[strings.LastIndexByte(name, ' ')+1:]
	return len(letter) == 1 && letter[0] >= 'A' && letter[0] <= 'Z'
}

// carried is as much of a path as another variant offers, step by step.
func carried(here specs.Checked, path []int, there specs.Checked) ([]int, error) {
	taken, _, err := here.Actions(path)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, action := range taken {
		_, offered, err := there.Actions(out)
		if err != nil {
			return nil, err
		}
		at := slices.Index(offered, action)
		if at < 0 {
			break
		}
		out = append(out, at)
	}
	return out, nil
}
