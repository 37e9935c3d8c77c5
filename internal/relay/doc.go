// Package relay carries facts from the outbox to a bus or a queue, as nudges of
// ids only.
//
// Today it declares the seam, Publisher, that the drain loop will call; without a
// relay the ledger alone serves, as every worker sweeps the outbox itself. It knows
// nothing of what a fact causes, and never imports jobs. Whatever a publisher does
// to a nudge, drop, double or reorder it, the same frames land.
package relay
