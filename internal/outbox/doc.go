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
// It does not know what a fact causes, and does not promise an order between
// facts of different transactions.
package outbox
