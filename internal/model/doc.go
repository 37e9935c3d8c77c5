// Package model is the checker: it walks every interleaving of a small model,
// with every placement of a bounded number of faults, breadth first, and judges
// what it saw.
//
// It owns no row and no process. A Model is an initial state and a function that
// lists the steps out of a state; Search numbers the states in the order of their
// discovery; a Graph is what was found. Three kinds of property are judged:
//
//	Never        no reachable state may be like this
//	Reachable    some state must be like this, so that a model that can do nothing does not pass
//	Recoverable  from every reachable state some path leads to a state like this
//
// A state is a comparable Go struct (arrays, not slices), and the set of visited
// states compares whole states: no fingerprint, so no state is lost to a
// collision. The fault budget that is left is part of the state, by convention
// of the models. Steps are taken in the order the model lists them and states in
// the order they were found, so the trace of a violation is a shortest one and
// always the same.
//
// Not promised: anything beyond the bounds of the model that was searched; that a
// Recoverable system does recover (it says that it can); and nothing at all about
// the real code, which the models' owners replay against the graph.
package model
