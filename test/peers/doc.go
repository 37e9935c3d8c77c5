// Command peers sets the checker beside others on one and the same model, the rail's
// ledger with every defence on: beside SPIN, which searches rail.pml depth first with
// its partial-order reduction off, and beside a plain breadth-first search in Python,
// rail.py. `make model-peers` runs all three at each bound.
//
// They must agree on the states and on the transitions, or the command fails: three
// people's reading of one page would find a slip in any of them. The times are
// figures and fail nothing.
//
// Every run is a process of its own on one core, and all judge the same safety
// properties in every state. A time is what the process took of a core, user and
// system, so that other work on the machine counts little; a size is the most memory
// that was resident. Of both, what the same program takes for one worker and no fault
// is subtracted: its start. The peers take turns, and each figure is the least of its
// turns, since whatever else runs on the machine only adds to it. A peer whose program
// is missing is left out, and the table says so.
package main
