// Package jobs owns ops.matter_frame_jobs, the one ledger row of a matter, and
// ops.dispatch_pauses.
//
// The states of a row, and who moves it:
//
//	         demand                     claim
//	(none) ────────▶ queued ◀────────┐ ───────▶ running ──land──▶ idle
//	idle   ────────▶   ▲  │          │             │   └─land with demand
//	                   │  │ park     │ fail,       │      meanwhile─▶ queued
//	            unpark │  ▼          │ release,    │ park, cancel,
//	                   parked ◀──────┼ sweep ──────┘ attempts used up
//	                     └─ demand ──┘
//	                        (after failures only)
//
// A claim takes the next number of the row's counter. That number and the random
// run id are the fencing token: every later write of the holder repeats both, and
// the count of rows it touches is the verdict. The row decides, never a clock:
// a lease that ran out but was not swept may still land, because nobody else was
// told to build.
//
// Each transition is one statement, or a fragment of one: the landing touches the
// rows of four owners, so jobs, frames, runs and outbox each give their part as a
// common table expression and package runs joins them. A table's name stands in
// its owner only.
//
// Not promised: mutual exclusion of workers. A holder that lost its token may go
// on running; it can no longer write.
package jobs
