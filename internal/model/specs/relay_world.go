package specs

// consume is the trigger: a message is received, its fact decided in the ledger, and
// only then deleted. Any consumer also sweeps the outbox.
func (r relayModel) consume(s relayState, who int, yield relayYield) {
	c := s.Consumers[who]
	to := s
	switch c.PC {
	case consumerIdle:
		r.receive(s, who, yield)
		r.sweepOutbox(s, who, yield)
		return
	case consumerReceived:
		r.decide(&to, who)
		yield(relayAct{Kind: consumerDecides, Who: int8(who), Fact: int8(c.Fact)}, to)
	case consumerHalf:
		to.demand(factOf(int(c.Fact)))
		to.Consumers[who].PC = consumerDecided
		to.met(relayNudged)
		yield(relayAct{Kind: consumerDemands, Who: int8(who), Fact: int8(c.Fact)}, to)
	case consumerSwept:
		to.demand(factOf(int(c.Fact)))
		to.Consumers[who] = consumer{}
		to.swept(factOf(int(c.Fact)))
		yield(relayAct{Kind: consumerDemands, Who: int8(who), Fact: int8(c.Fact)}, to)
	case consumerDecided:
		to.Consumers[who] = consumer{}
		yield(relayAct{Kind: consumerDeletes, Who: int8(who), Fact: int8(c.Fact)}, to)
	}
	r.giveBack(s, who, yield)
}

// giveBack is how a message comes back to the queue: its consumer crashed, or could
// not delete it.
func (r relayModel) giveBack(s relayState, who int, yield relayYield) {
	if s.Left == 0 {
		return
	}
	c := s.Consumers[who]
	to := s
	to.Left--
	to.Consumers[who] = consumer{}
	if c.PC != consumerSwept {
		to.Queue[c.Fact]++
	}
	if c.PC == consumerDecided {
		yield(relayAct{Kind: consumerDeleteFails, Who: int8(who), Fact: int8(c.Fact)}, to)
	} else {
		yield(relayAct{Kind: consumerCrashes, Who: int8(who), Fact: int8(c.Fact)}, to)
	}
}

// receive takes any message of the queue: it has no order.
func (r relayModel) receive(s relayState, who int, yield relayYield) {
	for i, copies := range s.Queue {
		if copies == 0 {
			continue
		}
		to := s
		to.Queue[i]--
		to.Consumers[who] = consumer{PC: consumerReceived, Fact: uint8(i)}
		yield(relayAct{Kind: consumerReceives, Who: int8(who), Fact: int8(i)}, to)
	}
}

// decide looks the nudge's fact up and decides it, if nobody has.
func (r relayModel) decide(to *relayState, who int) {
	c := &to.Consumers[who]
	if c.Fact == maxFacts {
		if r.lookUp {
			*c = consumer{} // not deleted: the queue moves it to the dead letters
			to.met(relayLeft)
			return
		}
		to.Wrong |= relayForged
		c.PC = consumerDecided
		return
	}
	f := factOf(int(c.Fact))
	decided := to.Receipts&f != 0
	c.PC = consumerDecided
	switch {
	case decided && r.receipts:
		to.met(relayDuplicate)
	case r.oneTransaction:
		to.Receipts |= f
		to.demand(f)
		to.met(relayNudged)
	default:
		to.Receipts |= f
		c.PC = consumerHalf
	}
}

// sweepOutbox decides an undecided fact that no nudge has brought.
func (r relayModel) sweepOutbox(s relayState, who int, yield relayYield) {
	if !r.sweep {
		return
	}
	for i := range r.facts {
		f := factOf(i)
		if (s.Committed&^s.Receipts)&f == 0 {
			continue
		}
		to := s
		to.Receipts |= f
		if r.oneTransaction {
			to.demand(f)
			to.swept(f)
		} else {
			to.Consumers[who] = consumer{PC: consumerSwept, Fact: uint8(i)}
		}
		yield(relayAct{Kind: consumerSweeps, Who: int8(who), Fact: int8(i)}, to)
	}
}

// swept notes that the sweep decided a fact, if the bus has taken it: a nudge was
// lost, or late.
func (s *relayState) swept(f facts) {
	if s.Accepted&f != 0 {
		s.met(relaySwept)
	}
}

// demand turns a fact into demand.
func (s *relayState) demand(f facts) {
	if s.Demanded&f != 0 {
		s.Wrong |= relayTwice
	}
	s.Demanded |= f
}

// world is time and the queue.
func (r relayModel) world(s relayState, yield relayYield) {
	who, alive := s.Lease.Holder.Worker()
	to := s
	to.Lease.Expired = true
	if s.Lease.Holder == Dead && !s.Lease.Expired {
		yield(relayAct{Kind: relayLapses}, to)
	}
	if s.Left == 0 {
		return
	}
	to.Left--
	if alive && !s.Lease.Expired {
		yield(relayAct{Kind: relayPauses, Who: int8(who)}, to)
	}
	for i := range r.facts {
		r.spoil(s, i, yield)
	}
	to = s
	to.Left--
	to.Queue[maxFacts]++
	yield(relayAct{Kind: queueIsForged, Fact: maxFacts}, to)
}

// spoil drops a message, or doubles one that was sent and not deleted.
func (r relayModel) spoil(s relayState, i int, yield relayYield) {
	to := s
	to.Left--
	if s.Queue[i] > 0 {
		to.Queue[i]--
		yield(relayAct{Kind: queueDrops, Fact: int8(i)}, to)
	}
	if s.Queue[i] > 0 || s.received(i) {
		to.Queue[i] = s.Queue[i] + 1
		yield(relayAct{Kind: queueDoubles, Fact: int8(i)}, to)
	}
}

// received reports whether a consumer holds a message of the fact.
func (s *relayState) received(i int) bool {
	for _, c := range s.Consumers {
		if int(c.Fact) == i && c.PC != consumerIdle && c.PC != consumerSwept {
			return true
		}
	}
	return false
}

// met notes a step that must be possible, in calm states only: where no more than
// one of them all is busy.
func (s *relayState) met(m relayMet) {
	busy := 0
	for _, p := range s.Relays {
		if p.PC != relayIdle {
			busy++
		}
	}
	for _, c := range s.Consumers {
		if c.PC != consumerIdle {
			busy++
		}
	}
	if busy <= 1 {
		s.Met |= m
	}
}
