package specs_test

import (
	"slices"
	"testing"

	"briefrail/internal/model"
	"briefrail/internal/model/specs"
)

// A step keeps its identity where the words for it and its place among the others
// change.
func TestActionsAreTheSameInEveryVariant(t *testing.T) {
	t.Parallel()
	all, lease := find(t, "router", fixes("idem+lease")), find(t, "router", fixes("lease"))
	for _, path := range [][]int{{}, {0}, {0, 1, 0}} {
		want, offered, err := all.Actions(path)
		if err != nil || len(want) != len(path) || len(offered) == 0 {
			t.Fatalf("%v: %q, %q, %v", path, want, offered, err)
		}
		if got, _, err := lease.Actions(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %q, %v, want %q", path, got, err, want)
		}
	}
	if _, _, err := all.Actions([]int{0, 9}); err == nil {
		t.Error("a choice that is not offered was taken")
	}
}

func TestPropertiesAreNamedBeforeASearch(t *testing.T) {
	t.Parallel()
	for _, e := range specs.List() {
		c := find(t, e.Name, specs.Options{})
		r, err := c.Check(t.Context(), model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range c.Properties() {
			if v := r.Properties[i]; p.Name != v.Name || p.Kind != v.Kind {
				t.Errorf("%s: %+v is judged as %+v", e.Name, p, v)
			}
		}
	}
}
