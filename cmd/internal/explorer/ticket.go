package explorer

import (
	"slices"
	"strconv"
	"strings"

	"briefrail/internal/model"
)

// ticket is a state drawn as the row it is about: what it is, the numbers on it,
// who works on it, and what the model still has to spend.
type ticket struct {
	Stamp   cell
	Punches []punch
	Cells   []cell
	Workers []cell
	Budget  []cell
}

// cell is one field, and what it was before the last step.
type cell struct {
	Name, Value, Was string
	Changed          bool
	Pips             []bool // a small number, drawn
}

// punch is one generation on the row: asked for, claimed or landed.
type punch struct {
	N    int
	What string
}

// mostPunches is how many generations are drawn; beyond that numbers say more.
const mostPunches = 12

// draw makes a ticket of a state. It knows fields by their names, and what it does
// not know it writes as it is.
func draw(before, state []model.Field) ticket {
	var t ticket
	for i, f := range state {
		c := cell{Name: f.Name, Value: plain(f.Value)}
		if i < len(before) && before[i] != f {
			c.Was, c.Changed = plain(before[i].Value), true
		}
		switch {
		case i == 0:
			t.Stamp = c
		case isWorker(f.Name):
			t.Workers = append(t.Workers, c)
		case strings.HasSuffix(f.Name, " left"):
			c.Pips = pips(before, f)
			t.Budget = append(t.Budget, c)
		default:
			t.Cells = append(t.Cells, c)
		}
	}
	t.Punches = punches(state)
	return t
}

// differing is a ticket on which that is marked which is otherwise on another one.
func differing(other, state []model.Field) ticket {
	t := draw(other, state)
	for _, cells := range [][]cell{t.Cells, t.Workers, t.Budget} {
		for i := range cells {
			cells[i].Was = ""
		}
	}
	t.Stamp.Was = ""
	return t
}

// plain writes a truth value as an answer.
func plain(value string) string {
	switch value {
	case "true":
		return "yes"
	case "false":
		return "no"
	}
	return value
}

// pips are what is left of a small number, and what the last step took of it.
func pips(before []model.Field, f model.Field) []bool {
	n, err := strconv.Atoi(f.Value)
	if err != nil || n < 0 {
		return nil
	}
	had := max(n, value(before, f.Name))
	if had > mostPunches {
		return nil
	}
	out := make([]bool, had)
	for i := range n {
		out[i] = true
	}
	return out
}

// punches are the generations of a row that counts what is requested, claimed and
// landed.
func punches(state []model.Field) []punch {
	requested, claimed, landed := value(state, "requested"), value(state, "claimed"), value(state, "landed")
	if min(requested, claimed, landed) < 0 || requested > mostPunches {
		return nil
	}
	var out []punch
	for n := 1; n <= requested; n++ {
		p := punch{n, "requested"}
		switch {
		case n <= landed:
			p.What = "landed"
		case n <= claimed:
			p.What = "claimed"
		}
		out = append(out, p)
	}
	return out
}

// value is a field as a number, -1 where it is none.
func value(state []model.Field, name string) int {
	at := slices.IndexFunc(state, func(f model.Field) bool { return f.Name == name })
	if at < 0 {
		return -1
	}
	n, err := strconv.Atoi(state[at].Value)
	if err != nil {
		return -1
	}
	return n
}

// told says in words what a step has changed.
func told(label string, t ticket) string {
	var words []string
	for _, c := range slices.Concat([]cell{t.Stamp}, t.Cells, t.Workers, t.Budget) {
		if c.Changed {
			words = append(words, c.Name+": "+c.Was+" → "+c.Value)
		}
	}
	if len(words) == 0 {
		words = []string{"nothing changes"}
	}
	return label + " — " + strings.Join(words, "; ")
}
