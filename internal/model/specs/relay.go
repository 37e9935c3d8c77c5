package specs

import "briefrail/internal/model"

// relayState is one bucket of the outbox, the relays that lease it, a queue that
// promises nothing, and the consumers that turn facts into demand. Sets of facts are
// bits, the first fact lowest.
type relayState struct {
	Committed facts // in the outbox
	Published facts // published_at is set
	Parked    facts // refused for good, waiting for a person
	Receipts  facts // decided; all others that are committed are undecided
	Demanded  facts // at least once

	Lease     bucketLease
	Relays    [maxRelays]relayProcess
	Consumers [maxConsumers]consumer

	// Queue has so many copies of each fact's nudge, and last of the forged one, whose
	// fact does not exist. It has no order.
	Queue [maxFacts + 1]uint8

	Accepted facts // ghost: taken by the bus at some time
	Wrong    relayWrong
	Met      relayMet // ghost: what the last step was, noted only where it leaves them calm
	Left     uint8    // fault budget
}

// facts is a set of facts.
type facts uint8

func factOf(i int) facts { return 1 << i }

// bucketLease is the row of the bucket.
type bucketLease struct {
	Epoch   uint8
	Holder  Holder
	Expired bool
}

// relayProcess is one relay; all zero while it has nothing in hand.
type relayProcess struct {
	PC    relayPC
	Epoch uint8 // under which the facts in hand were read
	Hand  facts // read and not sent, or taken and not marked
	Park  facts // refused for good, not noted yet
}

type relayPC uint8

const (
	relayIdle     relayPC = iota
	relayRead             // about to send
	relayAnswered         // about to mark
	relayMarked           // only without mark-after-publish: about to send what it has marked
)

func (p relayPC) String() string { return [...]string{"idle", "read", "answered", "marked"}[p] }

// consumer is one receiver of the trigger; all zero while it holds nothing.
type consumer struct {
	PC   consumerPC
	Fact uint8
}

type consumerPC uint8

const (
	consumerIdle     consumerPC = iota
	consumerReceived            // about to decide
	consumerHalf                // only without one-transaction: the receipt is in, the demand is not
	consumerSwept               // the same, of the sweep: there is no message
	consumerDecided             // about to delete the message
)

func (p consumerPC) String() string {
	return [...]string{"idle", "received", "half decided", "half decided", "decided"}[p]
}

// relayWrong is a set of violations that a state cannot show afterwards.
type relayWrong uint8

const (
	relayTwice  relayWrong = 1 << iota // a fact became demand twice
	relayStale                         // a mark by a relay that had lost the bucket
	relayForged                        // a forged nudge became demand
)

// relayMet is a set of steps that must be possible.
type relayMet uint8

const (
	relayNudged    relayMet = 1 << iota // a nudge brought the demand
	relaySwept                          // the sweep decided a fact that the bus had taken
	relayDuplicate                      // a nudge of a decided fact demanded nothing
	relayLeft                           // a forged nudge was left for the dead letters
	relayFenced                         // a mark was refused
	relayAgain                          // a fact was sent twice
)

// What the arrays hold.
const (
	maxFacts       = 3
	maxRelays      = 3
	maxConsumers   = 2
	maxRelayFaults = 10
)

// relayModel is a variant of the design.
type relayModel struct {
	relays, facts int
	faults        uint8

	sweep, receipts, lookUp, oneTransaction, epoch, markAfter, perEntry bool
}

func relayEntry() Entry {
	return Entry{
		Name:    "relay",
		About:   "facts carried from the outbox over a bus that loses, doubles and reorders, and turned into demand",
		Workers: Bound{Default: 2, Most: maxRelays},
		Faults:  Bound{Default: 2, Most: maxRelayFaults},
		Demands: Bound{Default: 2, Most: maxFacts},
		Switches: []Switch{
			{"sweep", "undecided facts are decided also where no nudge comes"},
			{"receipts", "a fact that has one is not demanded again"},
			{"look-up", "a nudge whose fact the ledger does not know demands nothing"},
			{"one-transaction", "receipt and demand are written together"},
			{"epoch", "a mark is refused to a relay that has lost the bucket"},
			{"mark-after-publish", "a fact is marked once the bus has taken it, not before"},
			{"per-entry", "each entry of a call is judged by its own answer, not by the first one's"},
		},
		build: func(s settings) Checked {
			r := relayModel{
				relays: s.workers, facts: s.demands, faults: uint8(s.faults),
				sweep: s.has("sweep"), receipts: s.has("receipts"), lookUp: s.has("look-up"), oneTransaction: s.has("one-transaction"),
				epoch: s.has("epoch"), markAfter: s.has("mark-after-publish"), perEntry: s.has("per-entry"),
			}
			return checked[relayState, relayAct]{title: s.title(), model: r.model()}
		},
	}
}

func (r relayModel) model() model.Model[relayState, relayAct] {
	return model.Model[relayState, relayAct]{
		Name:       "relay",
		Initial:    relayState{Left: r.faults},
		Next:       r.next,
		Label:      r.label,
		Fault:      relayAct.fault,
		Describe:   r.describe,
		Properties: r.properties(),
	}
}

// all is the set of every fact.
func (r relayModel) all() facts { return 1<<r.facts - 1 }

func (r relayModel) properties() []model.Property[relayState] {
	never := func(name string, at func(relayState) bool) model.Property[relayState] {
		return model.Property[relayState]{Name: name, Kind: model.Never, At: at}
	}
	reachable := func(name string, at func(relayState) bool) model.Property[relayState] {
		return model.Property[relayState]{Name: name, Kind: model.Reachable, At: at}
	}
	went := func(w relayWrong) func(relayState) bool { return func(s relayState) bool { return s.Wrong&w != 0 } }
	met := func(m relayMet) func(relayState) bool { return func(s relayState) bool { return s.Met&m != 0 } }
	all := []model.Property[relayState]{
		never("a fact is demanded twice", went(relayTwice)),
		never("a receipt without its demand", func(s relayState) bool { return s.Receipts&^(s.Demanded|s.underWay()) != 0 }),
		never("demand without a receipt", func(s relayState) bool { return s.Demanded&^s.Receipts != 0 }),
		never("published, and the bus never took it", func(s relayState) bool { return s.Published&^(s.Accepted|s.promised()) != 0 }),
		never("marked by a relay that lost its bucket", went(relayStale)),
		never("published and parked", func(s relayState) bool { return s.Published&s.Parked != 0 }),
		never("a forged nudge demands", went(relayForged)),
		{Name: "every fact is demanded, and published or parked", Kind: model.Recoverable, At: r.done},
		reachable("every fact is demanded and published", func(s relayState) bool { return r.done(s) && s.Parked == 0 }),
		reachable("a nudge brings the demand", met(relayNudged)),
		reachable("the sweep decides what the bus has taken", met(relaySwept)),
	}
	if r.faults == 0 {
		return all
	}
	return append(all,
		reachable("a duplicate demands nothing", met(relayDuplicate)),
		reachable("a forged nudge is left for the dead letters", met(relayLeft)),
		reachable("a mark is refused", met(relayFenced)),
		reachable("a fact is sent twice", met(relayAgain)),
		reachable("a fact is parked", func(s relayState) bool { return s.Parked != 0 }))
}

// done is the end that everything has to be able to come to.
func (r relayModel) done(s relayState) bool {
	return s.Receipts&s.Demanded&(s.Published|s.Parked) == r.all()
}

// underWay are the facts whose decision is half written.
func (s *relayState) underWay() (f facts) {
	for _, c := range s.Consumers {
		if c.PC == consumerHalf || c.PC == consumerSwept {
			f |= factOf(int(c.Fact))
		}
	}
	return f
}

// promised are the facts that were marked by a relay which is about to send them.
func (s *relayState) promised() (f facts) {
	for _, p := range s.Relays {
		if p.PC == relayMarked {
			f |= p.Hand
		}
	}
	return f
}
