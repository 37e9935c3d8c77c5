package specs_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

// authorityFigures are writers, faults, intents, changes; states, transitions, depth.
var authorityFigures = [][7]int{ // constant
	{1, 0, 1, 1, 756, 1915, 16},
	{2, 0, 1, 1, 1139, 3095, 16},
	{2, 0, 1, 2, 9003, 26977, 23},
	{2, 0, 2, 2, 41573, 131972, 27},
	{2, 1, 1, 1, 11522, 39652, 19},
	{2, 1, 1, 2, 94620, 350872, 26},
	{2, 2, 1, 1, 53798, 219749, 22},
	{3, 1, 1, 1, 20788, 86147, 19},
	{3, 3, 1, 1, 381880, 2155641, 25},
}

// deepFigures are the same where there is time for them.
var deepFigures = [][7]int{ // constant
	{2, 1, 1, 3, 324554, 1227845, 33},
	{2, 2, 1, 2, 463467, 2021939, 29},
	{3, 2, 1, 2, 884977, 4504282, 29},
	{2, 2, 2, 2, 2852394, 13184558, 33},
}

// With every defence on everything holds, and what must be possible is.
func TestAuthorityFigures(t *testing.T) {
	t.Parallel()
	rows := authorityFigures
	if os.Getenv("RAIL_TEST_LOAD") == "full" {
		rows = append(rows[:len(rows):len(rows)], deepFigures...)
	}
	agree(t, "authority", rows)
}

// authorityBounds are the widest at which a defence is judged: one change with one
// fault; more where that shows nothing or not all of it, and less where
// verbs that look at nothing go round and round.
func authorityBounds(defence string) []bounds {
	switch defence {
	case "state-check":
		return []bounds{{1, 0, 1, 1}}
	case "unknown-blocks", "deadline":
		return []bounds{{2, 2, 1, 1}}
	case "own-report", "window":
		return []bounds{{1, 0, 1, 2}}
	case "change-id":
		return []bounds{{2, 0, 1, 1}, {1, 0, 1, 2}}
	case "epoch":
		return []bounds{{2, 1, 1, 1}, {1, 1, 1, 2}}
	case "row-lock": // it takes two writers of one side to leave the row never free
		return []bounds{{3, 0, 1, 1}}
	default:
		return []bounds{{2, 1, 1, 1}}
	}
}

// wrongVariants are the designs that were measured and turned down, each with what it
// does not keep.
func wrongVariants() map[string]string {
	return map[string]string{
		"row-lock":            "the closer is overtaken without end",
		"xid-horizon":         "a late write",
		"position-under-lock": "an accepted write beyond the final sequence",
		"read-committed":      "a late write",
	}
}

// Each design that was turned down fails as it did when it was measured.
func (st study) variants(t *testing.T) {
	t.Helper()
	var all []damage
	for _, s := range []specs.Switch{
		{Name: "row-lock", About: "writers share the fence's row, and the close waits for it"},
		{Name: "xid-horizon", About: "no locks: the drain waits for the transactions that have an id by then"},
		{Name: "position-under-lock", About: "the seal reads the position before it has lock B"},
		{Name: "read-committed", About: "REPEATABLE READ is allowed, so a check reads what was when the transaction began"},
	} {
		d := st.remove(t, s)
		kept := true
		for _, b := range d.broken {
			kept = kept && b.Name != wrongVariants()[s.Name]
		}
		if kept {
			t.Errorf("%s: %q holds", s.Name, wrongVariants()[s.Name])
		}
		golden(t, "authority/variant-"+s.Name+".txt", d.text())
		all = append(all, d)
	}
	document(t, "authority variants", defencesTable("variant", all))
	document(t, "authority variants' traces", tracesList("", only(all[:2], func(variant string) string { return wrongVariants()[variant] })))
}

// only keeps of what breaks the one property that each is there for.
func only(all []damage, purpose func(string) string) (out []damage) {
	for _, d := range all {
		d.broken = slices.DeleteFunc(slices.Clone(d.broken), func(b broken) bool { return b.Name != purpose(d.Name) })
		out = append(out, d)
	}
	return out
}

func TestAuthorityOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]specs.Options{
		"model authority: 5 workers: give 1 to 4":                       {Workers: 5},
		"model authority: 5 attempts: give 1 to 4":                      {Attempts: 5},
		`no switch "lock-c": there are lock-a, second-look`:             {Without: []string{"lock-c"}},
		`no version "lease": there are row-lock, xid-horizon, advisory`: {Version: "lease"},
	} {
		if _, err := specs.Authority(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: want an error with %q, got %v", o, want, err)
		}
	}
	if m, err := specs.Authority(specs.Options{Workers: 1}); err != nil || m.Initial.Fence != (specs.Fence{Epoch: 1}) {
		t.Errorf("%+v, %v", m.Initial, err)
	}
	if c := find(t, "authority", specs.Options{Version: "row-lock"}); c.Title() != "authority, 2 workers, 0 faults, 1 demand, 2 attempts, every defence, row-lock" {
		t.Error(c.Title())
	}
}

// The fence's row goes round as it should.
func TestFenceTransitions(t *testing.T) {
	t.Parallel()
	open := specs.Fence{Epoch: 3, Writer: specs.SideNew}
	sealed := open.Close().Seal(4)
	if want := (specs.Fence{Epoch: 3, Writer: specs.SideNew, State: specs.FenceSealed, Final: 4}); sealed != want {
		t.Errorf("%+v, want %+v", sealed, want)
	}
	if back := sealed.Abort(); back != open {
		t.Errorf("an abort leads to %+v, not back to %+v", back, open)
	}
	if on, want := sealed.Advance(specs.SideOld), (specs.Fence{Epoch: 4, Writer: specs.SideOld}); on != want {
		t.Errorf("%+v, want %+v", on, want)
	}
}

type authorityNext = func(specs.AuthorityState, func(specs.AuthorityAct, specs.AuthorityState))

// bent is the model at one bound with other steps.
func bent(t *testing.T, o specs.Options, bend func(authorityNext) authorityNext) map[string]model.Verdict {
	t.Helper()
	m, err := specs.Authority(o)
	if err != nil {
		t.Fatal(err)
	}
	m.Next = bend(m.Next)
	g, err := model.Search(t.Context(), m, model.Options{MaxStates: 200_000})
	if g == nil {
		t.Fatal(err)
	}
	out := map[string]model.Verdict{}
	for _, v := range g.Verdicts() {
		out[v.Name] = v
	}
	return out
}
