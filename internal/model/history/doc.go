// Package history judges what real workers did to real rows: every recorded change of
// a matter must be a step of the ledger's model. No program contains it.
//
// It owns the recorder (RecordSQL: triggers that a test lays into its own database),
// the judgement (Check) and the view of a history as a register (Writes) for a checker
// of linearizability that knows nothing of the model. The steps are those of
// specs.Row, the very functions that the explorer searched.
//
// A step is what one transaction did to one matter. The row's change must be what a
// step of the model makes of the row before it, and the transaction's other changes
// must agree with it: a landing is by the run that the row named and brings that run's
// one frame; whatever ends a claim closes its run and no other; a write is refused only
// of a run that had lost its claim. Where a step is not of the model, the story of its
// matter is told up to there.
//
// That the judgement sees anything is tested by Forgeries: lies, one at a time, in a
// copy of a history that is true.
//
// Not judged: times and urgencies (settle, backoff, priority), which the model leaves
// to waiting, and what operators do.
package history
