package model_test

import (
	"slices"
	"testing"

	"briefrail/internal/model"
)

// Outputs that any implementation of MT19937 gives after init_by_array({42}).
func TestTwister(t *testing.T) {
	t.Parallel()
	r := model.NewTwister(42)
	var got []uint32
	for range 5 {
		got = append(got, r.Uint32())
	}
	for range 1995 {
		r.Uint32()
	}
	got = append(got, r.Uint32())
	if want := []uint32{2746317213, 478163327, 107420369, 3184935163, 1181241943, 426724858}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if f := model.NewTwister(42).Float64(); f != 0.6394267984578837 {
		t.Errorf("uniform %v", f)
	}
}

func TestTwisterChoosesAmongFew(t *testing.T) {
	t.Parallel()
	r := model.NewTwister(7)
	for n := 1; n <= 9; n++ {
		seen := make([]int, n)
		for range 2000 {
			seen[r.Choose(n)]++
		}
		if slices.Min(seen) < 2000/n*7/10 {
			t.Errorf("among %d: %v", n, seen)
		}
	}
}
