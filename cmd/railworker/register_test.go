package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"briefrail/internal/model/history"
)

// token is what a claim hands out; the zero token is nobody's.
type token struct {
	run        string
	generation int64
}

// register is all that one matter's row promises about landings.
type register struct {
	live    token
	highest int64 // generation ever handed out
	landed  int64
}

// apply reports whether the register may answer a write so, and what it is then.
func (r register) apply(w history.Write) (bool, register) {
	by, ok := token{w.Run, w.Generation}, true
	switch w.Kind {
	case history.WriteClaim:
		ok = r.live == token{} && w.Generation > r.highest
		r.live, r.highest = by, w.Generation
	case history.WriteLand:
		ok = w.OK == (r.live == by)
		if w.OK {
			r.live, r.landed = token{}, w.Generation
		}
	case history.WriteEnd:
		ok = r.live == by
		r.live = token{}
	case history.WriteRead:
		ok = r.landed == w.Generation
	}
	return ok, r
}

func registers() porcupine.Model {
	return porcupine.Model{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			byMatter := map[string][]porcupine.Operation{}
			for _, o := range all {
				matter := o.Input.(history.Write).Matter
				byMatter[matter] = append(byMatter[matter], o)
			}
			out := make([][]porcupine.Operation, 0, len(byMatter))
			for _, ops := range byMatter {
				out = append(out, ops)
			}
			return out
		},
		Init: func() any { return register{} },
		Step: func(state, input, _ any) (bool, any) { return state.(register).apply(input.(history.Write)) },
		DescribeOperation: func(input, _ any) string {
			w := input.(history.Write)
			return fmt.Sprintf("%s %d of %s: %t", w.Kind, w.Generation, w.Run, w.OK)
		},
	}
}

// linearizable asks porcupine, which knows nothing of the model: is there an order of
// the writes, each within its interval, in which a register would have answered so?
func linearizable(t *testing.T, changes []history.Change) (verdict porcupine.CheckResult, writes, refused int) {
	t.Helper()
	all := history.Writes(changes)
	ops := make([]porcupine.Operation, len(all))
	for i, w := range all {
		if w.Call > w.Return {
			t.Fatalf("the database's clock went back during the test: %+v", w)
		}
		if !w.OK {
			refused++
		}
		ops[i] = porcupine.Operation{ClientId: i, Input: w, Call: w.Call, Return: w.Return}
	}
	return porcupine.CheckOperationsTimeout(registers(), ops, 5*time.Minute), len(all), refused
}
