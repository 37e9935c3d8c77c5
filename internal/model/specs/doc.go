// Package specs holds the models: three published ones, whose figures are known,
// and the rail's own.
//
//	router     claims a record, dispatches one second-level assignment, marks it ROUTED
//	job        inserts or reclaims a row, runs, writes done
//	batch      a gate that sends flagged records of a batch to review
//	ledger     the rail's job row: claimed, built, landed under its token, swept
//	relay      facts on their way over a bus that promises nothing, turned into demand
//	authority  the fence of a scope, and the change that moves it from one writer to another
//
// Each is a model.Model in a file of its own, with its defences as switches, and
// an Entry by which programs find it without knowing its types. What a model
// leaves out is said at its state. The models decide nothing: they are read by
// tests and by railctl.
//
// # The ledger
//
// The job row of one matter, the workers that race for it, the sweep and a source of
// demand. Its steps are the transitions of package jobs, as package runs and package
// sweep make them:
//
//	Row.Demand   ops.demand, on none, idle, queued, running and parked rows
//	Row.Claim    jobs.ClaimCTE, with the run opened in the same statement
//	Row.Renew    jobs.Renew
//	Row.Land     jobs.LandCTE, with the frame, the run and the fact
//	Row.Fail     jobs.FailCTE, and jobs.ExpireCTE when the sweep does it
//	Row.Release  jobs.ReleaseCTE
//	Row.Lapse    time; no statement
//	Row.Rewind   a failover to a replica that has not heard of the last claim
//
// What a worker does when it does not know whether its landing committed is
// runs.LandSettled: it asks its run's row. A worker whose process dies and one that
// ends its build because the lease can no longer be trusted look alike to the
// ledger, and are both a crash.
//
// The claim is the only commit that a failover loses here, as it alone makes the
// counter hand a number out again. A lost landing leaves a claim whose holder has
// gone, and its frame is built once more. So does a lost failure, release or sweep.
// A lost renewal is a pause. A lost demand is lost with its receipt, and its fact is
// decided again.
//
// Not in the model: operators' verbs, the claim by key, settle, backoff, priorities,
// more than one matter, and the guards of the tables.
//
// # Relay and trigger
//
// One bucket of the outbox, the relays that lease it (outbox.LeaseBuckets), read it
// (outbox.Batch), send (package nudge) and mark (outbox.Mark, outbox.Fail); a bus and
// a queue; and consumers that decide (package trigger), by nudge or by a sweep of the
// outbox. A relay that crashes starts again under another id, as the code's do.
//
// # Authority
//
// One scope's fence, the transactions of its two sides, and the controllers that move
// authority. The steps of a controller are the verbs of railctl authority, one update
// each:
//
//	Fence.Close    close, under its plan's conditions
//	Fence.Seal     seal, with the position
//	Fence.Advance  advance, with the report
//	Fence.Abort    abort, by a controller or the watchdog
//
// drain and verify move only the change's row; import is the importer's. Those of a
// writer are admission (admit), the statement that writes (work), and the check at the
// tail of its commit before the commit itself (commit).
//
// # The published models
//
// The published ones are after "Exactly-once is a state machine. Model-check
// yours." (0xKraken, August 2026); its figures are the tests here.
package specs
