package specs

type authorityYield = func(AuthorityAct, AuthorityState)

// next offers the steps of each writer in turn, then of each controller, then what
// the watchdog and the operators do.
func (m *authority) next(s AuthorityState, yield authorityYield) {
	if s.Wrong&WrongArrays != 0 {
		return // the arrays would lie from here on
	}
	s.Met = 0
	for who := range m.writers {
		m.write(&s, who, yield)
	}
	for who := range MaxControllers {
		m.control(&s, who, yield)
	}
	m.watch(&s, yield)
	m.operate(&s, yield)
	m.confuse(&s, yield)
}

// write offers the steps of one writer's process.
func (m *authority) write(s *AuthorityState, who int, yield authorityYield) {
	switch s.Writers[who].PC {
	case FencedIdle:
		m.begin(s, who, yield)
		return
	case FencedRead:
		to := *s
		to.admitted(who)
		yield(AuthorityAct{Kind: AuthorityAdmits, Who: int8(who), Intent: int8(s.Writers[who].Intent)}, to)
	case FencedAdmitted:
		m.work(s, who, yield)
	case FencedWorked:
		m.checkTail(s, who, yield)
	case FencedChecked:
		m.commit(s, who, yield)
	}
	if s.Faults > 0 {
		to := *s
		to.Faults--
		to.Writers[who] = AuthorityWriter{}
		yield(AuthorityAct{Kind: AuthorityFails, Who: int8(who), Intent: int8(s.Writers[who].Intent)}, to)
	}
}

// begin starts a transaction for an intent that waits, or answers it from a receipt.
// A client that was not answered sends the same intent again, to either side; so does
// one that was refused at the door, which changes nothing and is no step.
func (m *authority) begin(s *AuthorityState, who int, yield authorityYield) {
	side := sideOf(who)
	for i := range m.intents {
		switch {
		case s.Intents[i].Told:
		case m.receipt(s, side, i):
			m.answer(s, who, i, yield)
		case s.Intents[i].Unknown && side == SideNew: // never sent to a second side
		case m.open(s, side):
			m.admit(s, who, i, yield)
		}
	}
	if s.Faults > 0 {
		to := *s
		to.Faults--
		to.Writers[who] = AuthorityWriter{PC: FencedWorked, Epoch: s.Fence.Epoch, Saw: !m.readCommitted && m.takes(s, side, s.Fence.Epoch)}
		yield(AuthorityAct{Kind: AuthorityBegins, Who: int8(who)}, to)
	}
}

// open is what admission asks: may this side begin?
func (m *authority) open(s *AuthorityState, side Side) bool {
	if s.waiting() && s.holders() == 0 {
		return false // the row is free, and the closer has it
	}
	return s.Fence.State == FenceOpen && m.inCharge(s, side)
}

// waiting reports whether a closer waits for the fence's row.
func (s *AuthorityState) waiting() bool {
	for _, c := range s.Controllers {
		if c.PC == ControllerWaits {
			return true
		}
	}
	return false
}

// inCharge reports whether a side's role is that of the scope's writer.
func (m *authority) inCharge(s *AuthorityState, side Side) bool {
	return !m.role || s.Fence.Writer == side && !(s.Retired && side == SideOld)
}

// takes is what the tail of a commit asks.
func (m *authority) takes(s *AuthorityState, side Side, epoch uint8) bool {
	return s.Fence.State != FenceSealed && (!m.epoch || s.Fence.Epoch == epoch) && m.inCharge(s, side)
}

// receipt reports whether a side knows a write that carries the intent out.
func (m *authority) receipt(s *AuthorityState, side Side, i int) bool {
	return m.receipts && s.Intents[i].Effects&s.Has[side] != 0
}

// admit is admission. Under lock A it looks at the fence once more, which makes one
// step of both: what the first look saw no longer matters.
func (m *authority) admit(s *AuthorityState, who, i int, yield authorityYield) {
	to := *s
	to.Writers[who] = AuthorityWriter{PC: FencedRead, Epoch: s.Fence.Epoch, Intent: uint8(i + 1), Saw: !m.readCommitted}
	to.Intents[i].Unknown = to.Intents[i].Unknown || sideOf(who) == SideOld
	if !m.secondLook {
		yield(AuthorityAct{Kind: AuthorityReads, Who: int8(who), Intent: int8(i + 1)}, to)
		return
	}
	to.admitted(who)
	yield(AuthorityAct{Kind: AuthorityAdmits, Who: int8(who), Intent: int8(i + 1)}, to)
}

// admitted is the moment of lock A.
func (s *AuthorityState) admitted(who int) {
	s.Writers[who].PC = FencedAdmitted
	if s.waiting() {
		s.Overtook = min(s.Overtook+1, MaxWriters+1)
	}
}

// work writes the transaction's rows. The intent's id is a key: whoever comes second
// waits for the first to end. A transaction may also end without a write.
func (m *authority) work(s *AuthorityState, who int, yield authorityYield) {
	i := int(s.Writers[who].Intent) - 1
	switch {
	case m.receipt(s, sideOf(who), i):
		m.answer(s, who, i, yield)
	case m.receipts && s.inHand(who, i):
	default:
		to := *s
		to.Writers[who].PC = FencedWorked
		yield(AuthorityAct{Kind: AuthorityWorks, Who: int8(who), Intent: int8(i + 1)}, to)
	}
	to := *s
	to.refuse(who)
	yield(AuthorityAct{Kind: AuthorityEnds, Who: int8(who), Intent: int8(i + 1)}, to)
}

// inHand reports whether another transaction of the same side has written for an
// intent and not ended.
func (s *AuthorityState) inHand(who, i int) bool {
	for other, w := range s.Writers {
		if other != who && sideOf(other) == sideOf(who) && w.PC >= FencedWorked && int(w.Intent) == i+1 {
			return true
		}
	}
	return false
}

// checkTail reads the fence at the tail of a commit. Without read-committed it reads
// what its snapshot holds.
func (m *authority) checkTail(s *AuthorityState, who int, yield authorityYield) {
	w := s.Writers[who]
	passes := !m.commitTail || m.takes(s, sideOf(who), w.Epoch)
	if m.commitTail && !m.readCommitted {
		passes = w.Saw
	}
	to := *s
	if passes {
		to.Writers[who].PC = FencedChecked
		yield(AuthorityAct{Kind: AuthorityChecks, Who: int8(who), Intent: int8(w.Intent)}, to)
		return
	}
	moved := s.Fence.State == FenceSealed || s.Fence.Epoch != w.Epoch
	if w.Intent > 0 && !w.Overdue && moved {
		to.Wrong |= WrongCut
	}
	to.refuse(who)
	to.met(MetCommitOff)
	yield(AuthorityAct{Kind: AuthorityRefused, Who: int8(who), Intent: int8(w.Intent)}, to)
}

// refuse ends a transaction that wrote nothing, and says so. What the old side says
// in so many words is known.
func (s *AuthorityState) refuse(who int) {
	i := s.Writers[who].Intent
	s.Writers[who] = AuthorityWriter{}
	if i == 0 {
		return
	}
	for other, w := range s.Writers {
		if w.Intent == i && sideOf(other) == SideOld {
			return // another try of it may still commit
		}
	}
	if s.Intents[i-1].Effects == 0 {
		s.Intents[i-1].Unknown = false
	}
}

// commit makes the write an accepted one, and its client hears of it or not.
func (m *authority) commit(s *AuthorityState, who int, yield authorityYield) {
	w := s.Writers[who]
	to := *s
	met := m.accept(&to, who)
	unheard := to
	act := AuthorityAct{Kind: AuthorityCommits, Who: int8(who), Intent: int8(w.Intent)}
	if w.Intent > 0 {
		to.tell(int(w.Intent) - 1)
	}
	to.met(met)
	yield(act, to)
	if s.Faults > 0 && w.Intent > 0 {
		unheard.Faults--
		act.Unheard = true
		yield(act, unheard)
	}
}

// accept is the commit itself. It returns what this one shows to be possible.
func (m *authority) accept(to *AuthorityState, who int) (met AuthorityMet) {
	w, side, f := to.Writers[who], sideOf(who), to.Fence
	switch {
	case f.State == FenceSealed || f.Epoch != w.Epoch:
		to.Wrong |= WrongLate
	case f.Writer != side:
		to.Wrong |= WrongOther
	}
	if to.Retired && side == SideOld {
		to.Wrong |= WrongRetired
	}
	to.Writers[who] = AuthorityWriter{}
	if to.Committed == maxAccepted {
		to.Wrong |= WrongArrays
		return 0
	}
	write := Writes(1) << to.Committed
	to.Committed++
	to.Has[side] |= write
	if w.Intent > 0 {
		to.Intents[w.Intent-1].Effects |= write
	}
	switch {
	case f.State == FenceClosing:
		met |= MetGrace
	case to.Change.Phase == PhaseAborted:
		met |= MetReopened
	}
	if side == SideNew && f.Writer == SideNew {
		met |= MetNewWrites
	}
	return met
}

// answer tells the client what the receipt says.
func (m *authority) answer(s *AuthorityState, who, i int, yield authorityYield) {
	to := *s
	to.Writers[who] = AuthorityWriter{}
	to.tell(i)
	met := MetReceipt
	// the first crossing alone can have brought the new side what the old one has too
	if sideOf(who) == SideNew && s.Crossed == 1 && s.Change.Phase == PhaseAdvanced && s.Has[SideOld]&s.Intents[i].Effects != 0 {
		met |= MetImported
	}
	to.met(met)
	yield(AuthorityAct{Kind: AuthorityAnswers, Who: int8(who), Intent: int8(i + 1)}, to)
}

// tell gives the client of an intent its answer.
func (s *AuthorityState) tell(i int) { s.Intents[i].Told, s.Intents[i].Unknown = true, false }

// met notes a step that must be possible, where no transaction is under way.
func (s *AuthorityState) met(met AuthorityMet) {
	for _, w := range s.Writers {
		if w.PC != FencedIdle {
			return
		}
	}
	s.Met |= met
}

// confuse sends an intent's id with other content, to a side that knows the intent.
func (m *authority) confuse(s *AuthorityState, yield authorityYield) {
	for i := range m.intents {
		if s.Faults == 0 || s.Intents[i].Effects&s.Has[s.Fence.Writer] == 0 {
			continue
		}
		to := *s
		to.Faults--
		if !m.digest {
			to.Wrong |= WrongContent
		}
		yield(AuthorityAct{Kind: AuthorityOther, Intent: int8(i + 1)}, to)
	}
}
