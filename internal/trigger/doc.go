// Package trigger owns ops.trigger_receipts and turns facts into demand: every
// fact ends with one receipt and its verdict.
//
// A decision is one transaction for a whole batch: the undecided rows are locked
// (by number), the gates judge (pure functions over fact and rules), demand is
// recorded (by key), the receipts are written, the undecided rows go. Whoever
// holds the lock on an undecided row decides the fact, so a fact is demand once
// however often it is announced; a crash anywhere leaves it undecided.
//
// Verdicts: demanded, ignored (its name triggers nothing, it has no matter, or the
// rail wrote it itself), gated:firm_disabled, gated:matter_closed. A verdict other
// than demanded can be judged again (railctl outbox redecide).
//
// Not promised: an order between matters, or one build a fact. Facts that arrive
// while a matter settles, waits or is built share the next one.
package trigger
