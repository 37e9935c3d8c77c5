// Package relay carries facts from the outbox to a bus or a queue, as nudges of
// ids only. It owns no table: the outbox keeps what is published, what failed and
// who holds which bucket.
//
// A relay leases its even share of the outbox's buckets (keep), reads what is
// unpublished there (drain), sends it in calls outside any transaction (send), and
// writes down what every sink named as taken (settle). A fact that is read is in
// hand, and is read again only after it was put back or noted. What is in hand is
// bounded, so memory does not grow with the backlog.
//
// A sink is open, slowed (it throttles: its rate of calls falls and climbs again),
// or paused (it is not configured as it should be: no fact is blamed, one call
// probes it ever more rarely). Facts are published when all sinks have taken them.
// One that is paused keeps only its own waiting: what the others took is noted in the
// side table, a row a fact, and none of these is read again before the paused sink may
// be called. With three sinks, of which two are paused, a fact waits for the first of
// them, and for the second after that.
//
// Buckets that are urgent, because authority over their matters is on its way, are read
// first, and have half of each reading at most: the others keep theirs.
//
// The lease decides who may mark: a relay that slept past it sends nothing more and
// what it marks is refused. Not promised: an order, and that a fact is sent once. A
// crash between an answer and its mark sends it again, under the same event id.
//
// It knows nothing of what a fact causes, and never imports jobs. Whatever a
// publisher does to a nudge, drop, double or reorder it, the same frames land.
package relay
