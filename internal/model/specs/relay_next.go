package specs

// relayAct is a step; Who is the relay or the consumer it is about, Fact the fact.
type relayAct struct {
	Kind relayKind
	Who  int8
	Fact int8
}

type relayKind uint8

const (
	relayCommits relayKind = iota // a producer

	relayTakes // the bucket
	relayRenews
	relayReads
	relayMarksFirst // only without mark-after-publish
	relaySends
	relayEntryRefused // fault: one entry of the call
	relayEntryFinal   // fault: the same, for good
	relayUnheard      // fault: the bus took the call, the answer is lost
	relayMarks
	relayMarkFenced
	relayCrashes // fault

	consumerReceives
	consumerDecides
	consumerDemands // only without one-transaction
	consumerSweeps
	consumerDeletes
	consumerDeleteFails // fault
	consumerCrashes     // fault

	relayLapses   // the lease of a dead relay
	relayPauses   // fault: its holder is silent past the lease
	queueDrops    // fault
	queueDoubles  // fault
	queueIsForged // fault
)

func (a relayAct) fault() bool {
	switch a.Kind {
	case relayEntryRefused, relayEntryFinal, relayUnheard, relayCrashes, consumerDeleteFails, consumerCrashes,
		relayPauses, queueDrops, queueDoubles, queueIsForged:
		return true
	default:
		return false
	}
}

type relayYield = func(relayAct, relayState)

// next offers the producer's step, each relay's and each consumer's in turn, then
// what time and the queue do.
func (r relayModel) next(s relayState, yield relayYield) {
	s.Met = 0
	if s.Committed != r.all() {
		to := s
		to.Committed = s.Committed<<1 | 1
		yield(relayAct{Kind: relayCommits}, to)
	}
	for who := range r.relays {
		r.lease(s, who, yield)
		switch p := s.Relays[who]; {
		case p.PC == relayIdle:
			r.read(s, who, yield)
		case p.PC == relayRead && !r.markAfter:
			r.mark(s, who, yield)
		case p.PC == relayRead, p.PC == relayMarked:
			r.send(s, who, yield)
		case p.PC == relayAnswered:
			r.mark(s, who, yield)
		}
		r.crash(s, who, yield)
	}
	for who := range maxConsumers {
		r.consume(s, who, yield)
	}
	r.world(s, yield)
}

// lease takes the bucket or renews it. What a relay has in hand it keeps: the mark
// will tell whether it may write.
func (r relayModel) lease(s relayState, who int, yield relayYield) {
	to := s
	switch {
	case s.Lease.Holder == HolderOf(who) && s.Lease.Expired:
		to.Lease.Expired = false
		yield(relayAct{Kind: relayRenews, Who: int8(who)}, to)
	case s.Lease.Holder == Nobody, s.Lease.Expired && s.Lease.Holder != HolderOf(who):
		to.Lease = bucketLease{Epoch: s.Lease.Epoch + 1, Holder: HolderOf(who)}
		yield(relayAct{Kind: relayTakes, Who: int8(who)}, to)
	}
}

// read takes what is unpublished into hand, under the lease's epoch.
func (r relayModel) read(s relayState, who int, yield relayYield) {
	hand := s.Committed &^ (s.Published | s.Parked)
	if s.Lease.Holder != HolderOf(who) || hand == 0 {
		return
	}
	to := s
	to.Relays[who] = relayProcess{PC: relayRead, Epoch: s.Lease.Epoch, Hand: hand}
	yield(relayAct{Kind: relayReads, Who: int8(who)}, to)
}

// send is one call: taken whole, or with one entry refused, or taken and not heard
// of. A relay that has lost the bucket sends all the same; it has not noticed yet.
func (r relayModel) send(s relayState, who int, yield relayYield) {
	hand := s.Relays[who].Hand
	to := s
	to.accept(hand)
	to.answered(who, hand, 0)
	yield(relayAct{Kind: relaySends, Who: int8(who)}, to)
	if s.Left == 0 {
		return
	}
	for i := range r.facts {
		refused := factOf(i)
		if hand&refused == 0 {
			continue
		}
		to := s
		to.Left--
		to.accept(hand &^ refused)
		final := to
		to.answered(who, r.taken(hand, refused), 0)
		yield(relayAct{Kind: relayEntryRefused, Who: int8(who), Fact: int8(i)}, to)
		final.answered(who, r.taken(hand, refused), refused&^r.taken(hand, refused))
		yield(relayAct{Kind: relayEntryFinal, Who: int8(who), Fact: int8(i)}, final)
	}
	to = s
	to.Left--
	to.accept(hand)
	to.answered(who, 0, 0)
	yield(relayAct{Kind: relayUnheard, Who: int8(who)}, to)
}

// taken is what a relay believes to be taken of a call with one refusal.
func (r relayModel) taken(hand, refused facts) facts {
	switch first := hand & -hand; {
	case r.perEntry:
		return hand &^ refused
	case first == refused:
		return 0
	default:
		return hand
	}
}

// accept is the bus taking entries: each goes to the queue.
func (s *relayState) accept(entries facts) {
	if s.Accepted&entries != 0 {
		s.met(relayAgain)
	}
	s.Accepted |= entries
	for i := range maxFacts {
		if entries&factOf(i) != 0 {
			s.Queue[i]++
		}
	}
}

// answered is a call's end. With nothing to write down the hand is empty: what was
// refused is read again when its backoff is over.
func (s *relayState) answered(who int, taken, park facts) {
	p := &s.Relays[who]
	if p.PC == relayMarked || taken|park == 0 {
		*p = relayProcess{}
		return
	}
	p.PC, p.Hand, p.Park = relayAnswered, taken, park
}

// mark writes down what the bus has taken, and what it will never take. It is
// refused to a relay whose lease is not the one that it read under.
func (r relayModel) mark(s relayState, who int, yield relayYield) {
	p := s.Relays[who]
	owns := s.Lease.Holder == HolderOf(who) && s.Lease.Epoch == p.Epoch
	to := s
	to.Relays[who] = relayProcess{}
	if r.epoch && !owns {
		to.met(relayFenced)
		yield(relayAct{Kind: relayMarkFenced, Who: int8(who)}, to)
		return
	}
	if !owns {
		to.Wrong |= relayStale
	}
	to.Published |= p.Hand
	to.Parked = (s.Parked | p.Park) &^ to.Published
	kind := relayMarks
	if p.PC == relayRead {
		kind = relayMarksFirst
		to.Relays[who] = relayProcess{PC: relayMarked, Hand: p.Hand}
	}
	yield(relayAct{Kind: kind, Who: int8(who)}, to)
}

// crash ends a relay with all that it has in hand. It starts again under another id,
// so its lease belongs to nobody alive.
func (r relayModel) crash(s relayState, who int, yield relayYield) {
	holds := s.Lease.Holder == HolderOf(who)
	if s.Left == 0 || (!holds && s.Relays[who].PC == relayIdle) {
		return
	}
	to := s
	to.Left--
	to.Relays[who] = relayProcess{}
	if holds {
		to.Lease.Holder = Dead
	}
	yield(relayAct{Kind: relayCrashes, Who: int8(who)}, to)
}
