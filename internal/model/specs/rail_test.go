package specs_test

import (
	"strings"
	"testing"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

func ledger(t *testing.T, o specs.Options) model.Model[specs.LedgerState, specs.LedgerAct] {
	t.Helper()
	m, err := specs.Ledger(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// holds complains about every property that does not hold.
func holds(t *testing.T, r specs.Report) {
	t.Helper()
	if !r.Complete {
		t.Errorf("%s: the search did not end", r.Title)
	}
	for _, v := range r.Properties {
		if !v.OK {
			t.Errorf("%s: %s %q: broken in %d states: %s", r.Title, v.Kind, v.Name, v.BadStates, strings.Join(v.Trace, "; "))
		}
	}
}

// ledgerFigures are workers, faults, demands, attempts; states, transitions, depth.
var ledgerFigures = [][7]int{ // constant
	{1, 0, 1, 2, 5, 5, 4},
	{1, 0, 2, 2, 16, 21, 8},
	{1, 1, 2, 2, 138, 244, 10},
	{2, 1, 2, 2, 380, 934, 13},
	{2, 2, 2, 2, 2479, 8445, 15},
	{2, 2, 1, 2, 381, 1225, 11},
	{2, 2, 3, 2, 9898, 34711, 19},
	{2, 2, 2, 1, 1447, 4837, 14},
	{2, 2, 2, 3, 2654, 8951, 15},
	{3, 2, 2, 2, 7189, 28602, 16},
	{3, 3, 2, 2, 43859, 227915, 18},
	{4, 3, 2, 2, 135829, 760204, 19},
	{3, 3, 3, 2, 234211, 1223268, 22},
}

// With every defence on everything holds, and what must be possible is.
func TestLedgerFigures(t *testing.T) {
	t.Parallel()
	agree(t, "ledger", ledgerFigures)
}

// agree holds a model to its figures: workers, faults, demands, attempts; states,
// transitions, depth. Everything that it promises holds in all of them.
func agree(t *testing.T, name string, figures [][7]int) {
	t.Helper()
	for _, row := range figures {
		r := check(t, find(t, name, specs.Options{Workers: row[0], Faults: row[1], Demands: row[2], Attempts: row[3]}))
		holds(t, r)
		if got := [...]int{row[0], row[1], row[2], row[3], r.States, r.Transitions, r.Depth}; got != row {
			t.Errorf("%s: got %v, want %v", r.Title, got, row)
		}
	}
}

func TestLedgerOptions(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		options specs.Options
		want    string
	}{
		{specs.Options{Workers: 5}, "model ledger: 5 workers: give 1 to 4"},
		{specs.Options{Faults: 11}, "model ledger: 11 faults: give 0 to 10"},
		{specs.Options{Demands: 7}, "model ledger: 7 demands: give 1 to 6"},
		{specs.Options{Demands: -1}, "model ledger: -1 demands: give 1 to 6"},
		{specs.Options{Attempts: 7}, "model ledger: 7 attempts: give 1 to 6"},
		{
			specs.Options{Without: []string{"leash"}},
			`no switch "leash": there are lease, token, run_id, renewal, rebuild-flag, sweep, attempt-cap, atomic-demand, fenced-insert`,
		},
	} {
		if _, err := specs.Ledger(row.options); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: want an error with %q, got %v", row.options, row.want, err)
		}
	}
	for want, o := range map[string]specs.Options{
		"ledger, 3 workers, 1 fault, 2 demands, 2 attempts, every defence":      {Workers: 3, Faults: 1},
		"ledger, 2 workers, 2 faults, 1 demand, 1 attempt, without token+sweep": {Faults: specs.Default, Demands: 1, Attempts: 1, Without: []string{"sweep", "token"}},
		"ledger, 2 workers, 0 faults, 2 demands, 2 attempts, with lease+sweep":  {With: []string{"sweep", "lease"}},
		"ledger, 2 workers, 0 faults, 2 demands, 2 attempts, no defence":        {With: []string{specs.None}},
	} {
		if c := find(t, "ledger", o); c.Title() != want {
			t.Errorf("%+v: %s, want %s", o, c.Title(), want)
		}
	}
}

// With neither renewal nor a cap one matter is claimed for ever. The search ends all
// the same, and says that it was the arrays that ended it.
func TestLedgerBeyondItsArrays(t *testing.T) {
	t.Parallel()
	r := check(t, find(t, "ledger", specs.Options{Workers: 1, Demands: 1, Without: []string{"renewal", "attempt-cap"}}))
	broken := map[string]bool{}
	for _, v := range r.Properties {
		broken[v.Name] = !v.OK
	}
	if !broken["the model's arrays do not suffice"] || !r.Complete {
		t.Errorf("%+v", r)
	}
}

// Several demands that come in as one count as several.
func TestRowDemandOfSeveral(t *testing.T) {
	t.Parallel()
	row := specs.Row{}.Demand(3)
	if want := (specs.Row{Status: specs.StatusQueued, Requested: 3, Owed: 3}); row != want {
		t.Errorf("got %+v, want %+v", row, want)
	}
	row = row.Claim(specs.HolderOf(1)).Demand(2)
	if want := (specs.Row{Status: specs.StatusRunning, Requested: 6, Claimed: 4, Owed: 5, Attempts: 1, Holder: specs.HolderOf(1), Flag: true}); row != want {
		t.Errorf("got %+v, want %+v", row, want)
	}
	row = row.Land(row.Claimed)
	if want := (specs.Row{Status: specs.StatusQueued, Requested: 6, Claimed: 4, Landed: 4, Owed: 2}); row != want || !row.Sound() {
		t.Errorf("got %+v, want %+v", row, want)
	}
	if who, alive := specs.HolderOf(1).Worker(); who != 1 || !alive || specs.HolderOf(1).String() != "B" {
		t.Errorf("the second worker is worker %d (%s)", who, specs.HolderOf(1))
	}
}
