// Package outbox owns ops.domain_event_outbox, its side tables, and the row of
// ops.ledger. Both ends of the rail append to it: producers by a plain INSERT in
// the transaction that makes a fact true, the rail itself with brief.landed and
// brief.parked.
//
// A fact is immutable. It is undecided from its birth (a row in
// ops.outbox_undecided, written by the table's own trigger) until the trigger has
// given it a receipt; whoever locks the undecided row decides it. There is no
// cursor: a fact that commits late brings its undecided row along, and a number
// that was rolled back leaves nothing to wait for.
//
// For relays it owns the 64 bucket leases and the side table of failures. A relay
// sends the facts of the buckets that it holds and marks what was taken, once, in a
// statement that checks holder and epoch of the lease: a relay that slept past its
// lease writes nothing, its successor sends again. A fact is unpublished, waiting
// for its next attempt, parked for a person, or published, which is for ever.
//
// It does not know what a fact causes, and promises neither an order between facts
// of different transactions nor that a fact is sent only once.
package outbox
