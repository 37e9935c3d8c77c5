// Package conformance holds the running code to the ledger's model: "the code is
// the model" as a test. It owns nothing, and no program contains it.
//
// Its tests walk the reachable graph of specs.Ledger and take every edge through
// the real packages (jobs.Demand, runs.ClaimSettled, jobs.Renew, runs.LandSettled,
// runs.Fail, runs.Release, sweep.Expire) on a real PostgreSQL. After each step the
// tables are read and mapped back to a state of the model, which must be the one
// that the edge leads to. Time passes by ageing rows; a crash is a claim that is
// forgotten; an answer is lost between the server and the caller; a failover puts
// an older image of the row back.
//
// That the comparison sees anything is itself tested: deliberate faults in the SQL
// must each be caught. The counterexamples of the published models, and of the
// ledger's variants that lack a defence, are replayed and must bounce.
//
// Not promised: steps that run at the same instant. One step follows another, as in
// the model; what happens inside one is for the races of the owners' own tests.
package conformance
