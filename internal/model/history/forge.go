package history

import (
	"slices"
	"time"
)

// Forgery is a lie: one thing in a history is made other than it was.
type Forgery struct {
	Name     string
	Register bool // a register that hands out tokens and refuses stale ones shows it too

	find func(*step) bool
	lie  func(f *forger)
}

// Forge tells the lie in a copy of a history: in the first step that it can be told of,
// after the first so many. n is the change at whose step it must be noticed; ok is
// false where the history has no such step.
func (f Forgery) Forge(changes []Change, skip int) (forged []Change, n int64, ok bool) {
	byMatter, next := steps(changes), map[string]int{}
	for _, c := range changes {
		all, at := byMatter[c.Matter], next[c.Matter]
		if at == len(all) || all[at].first.N != c.N {
			continue
		}
		next[c.Matter]++
		before := all[:at]
		if !f.find(all[at]) || !slices.ContainsFunc(before, claim) {
			continue // a lie is told of a matter that has been claimed before
		}
		if skip--; skip >= 0 {
			continue
		}
		w := &forger{all: clone(changes), at: c, n: c.N, before: before}
		w.pick()
		f.lie(w)
		return w.all, w.n, true
	}
	return nil, 0, false
}

// forger is at work on one step of a copy.
type forger struct {
	all    []Change
	at     Change
	n      int64
	before []*step // of the same matter, true

	job   *Job // after the step; nil where the step does not touch the row
	was   *Job // before it
	run   *Run
	ran   *Run // the run before it
	frame *Frame
}

func (w *forger) pick() {
	for i := range w.all {
		c := &w.all[i]
		if !w.mine(*c) {
			continue
		}
		switch {
		case c.Job != nil:
			w.job, w.was = c.Job.New, c.Job.Old
		case c.Run != nil:
			w.run, w.ran = c.Run.New, c.Run.Old
		case c.Frame != nil:
			w.frame = c.Frame.New
		}
	}
}

func (w *forger) mine(c Change) bool { return c.Matter == w.at.Matter && c.TX == w.at.TX }

// drop takes the step out, so that the next one of the row is wrong.
func (w *forger) drop() {
	after := slices.IndexFunc(w.all, func(c Change) bool { return c.N > w.n && c.Matter == w.at.Matter && c.Job != nil && !w.mine(c) })
	if after >= 0 {
		w.n = w.all[after].N
	}
	w.all = slices.DeleteFunc(w.all, w.mine)
}

// strip takes some changes out of the step.
func (w *forger) strip(some func(Change) bool) {
	w.all = slices.DeleteFunc(w.all, func(c Change) bool { return w.mine(c) && some(c) })
	if first := slices.IndexFunc(w.all, w.mine); first >= 0 {
		w.n = w.all[first].N
	}
}

// add puts a change into the step.
func (w *forger) add(c Change) {
	last := 0
	for i := range w.all {
		if w.mine(w.all[i]) {
			last = i
		}
	}
	c.N, c.TX, c.Since, c.At, c.Matter = w.all[last].N, w.at.TX, w.at.Since, w.at.At, w.at.Matter
	w.all = slices.Insert(w.all, last+1, c)
}

// row is the matter's row before the step.
func (w *forger) row() *Job {
	for _, s := range slices.Backward(w.before) {
		if s.job != nil {
			return s.job.New
		}
	}
	return nil
}

// claimed is the run of an earlier claim of the matter.
func (w *forger) claimed() *Run {
	for _, s := range w.before {
		for _, r := range s.runs {
			if r.Old == nil {
				return r.New
			}
		}
	}
	return nil
}

func clone(changes []Change) []Change {
	out := slices.Clone(changes)
	for i := range out {
		out[i].Job, out[i].Run, out[i].Frame = cloned(out[i].Job), cloned(out[i].Run), cloned(out[i].Frame)
	}
	return out
}

func cloned[T any](m *Moved[T]) *Moved[T] {
	if m == nil {
		return nil
	}
	var out Moved[T]
	if m.Old != nil {
		row := *m.Old
		out.Old = &row
	}
	if m.New != nil {
		row := *m.New
		out.New = &row
	}
	return &out
}

// aLease is beyond every lease of a test.
const aLease = time.Hour
