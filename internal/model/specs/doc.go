// Package specs holds the models: three published ones, whose figures are known,
// and the rail's own.
//
//	router  claims a record, dispatches one second-level assignment, marks it ROUTED
//	job     inserts or reclaims a row, runs, writes done
//	batch   a gate that sends flagged records of a batch to review
//	ledger  the rail's job row: claimed, built, landed under its token, swept
//
// Each is a model.Model in a file of its own, with its defences as switches, and
// an Entry by which programs find it without knowing its types. What a model
// leaves out is said at its state. The models decide nothing: they are read by
// tests and by railctl.
//
// The published ones are after "Exactly-once is a state machine. Model-check
// yours." (0xKraken, August 2026); its figures are the tests here.
package specs
