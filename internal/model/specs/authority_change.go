package specs

// control offers the steps of one controller. Any of them may take a change up at any
// time, also while the other works on it.
func (m *authority) control(s *AuthorityState, who int, yield authorityYield) {
	switch s.Controllers[who].PC {
	case ControllerIdle:
		m.plan(s, who, yield)
		return
	case ControllerGone:
		return
	case ControllerCloses, ControllerWaits:
		m.close(s, who, yield)
	case ControllerDrains, ControllerAwaits:
		m.drain(s, who, yield)
	case ControllerSeals, ControllerHasRead:
		m.seal(s, who, yield)
	case ControllerImports:
		m.bring(s, who, yield)
	case ControllerVerifies:
		m.verify(s, who, yield)
	case ControllerAdvances:
		m.advance(s, who, yield)
	case ControllerAborts:
		m.abort(s, who, yield)
	}
	if s.Faults > 0 {
		to := *s
		to.Faults--
		to.Controllers[who] = Controller{PC: ControllerGone}
		yield(AuthorityAct{Kind: AuthorityDies, Who: int8(who)}, to)
	}
}

// plan begins a change to the other side, or takes up the one that has not ended.
func (m *authority) plan(s *AuthorityState, who int, yield authorityYield) {
	to := *s
	if !s.Change.Phase.ended() {
		to.Controllers[who] = m.mind(s.Change.verb(), s.Change)
		yield(AuthorityAct{Kind: AuthorityTakesUp, Who: int8(who)}, to)
		return
	}
	target := s.Fence.Writer.other()
	if s.Change.ID == m.changes || s.Fence.State != FenceOpen || target == SideOld && s.Completed {
		return
	}
	to.Change = Change{ID: s.Change.ID + 1, Phase: PhasePlanned, To: target, Passed: s.Change.Passed}
	to.Controllers[who] = m.mind(ControllerCloses, to.Change)
	yield(AuthorityAct{Kind: AuthorityPlans, Who: int8(who)}, to)
}

// mind is a controller that goes on with a change.
func (m *authority) mind(verb ControllerPC, c Change) Controller {
	if verb == ControllerIdle {
		return Controller{}
	}
	out := Controller{PC: verb, Change: c.ID}
	if !m.changeID {
		out.To = c.To // with it, the change's row says so
	}
	return out
}

// finding is what a verb finds when it looks at the rows.
type finding uint8

const (
	findsItsTurn finding = iota
	findsItDone          // this verb, or a later one of the same change
	findsItOver          // the closing has ended, or is another one
)

// finds is the condition of a verb's one update.
func (m *authority) finds(s *AuthorityState, change uint8, turn Phase) finding {
	switch phase := s.Change.Phase; {
	case m.changeID && s.Change.ID != change:
		return findsItOver
	case !m.state:
		return findsItsTurn
	case !m.changeID: // the state of the fence is all that is left to look at
		if s.Fence.State == turn.fence() {
			return findsItsTurn
		}
		return findsItOver
	case phase == turn:
		return findsItsTurn
	case phase > turn && !phase.ended():
		return findsItDone
	default:
		return findsItOver
	}
}

// look offers what becomes of a verb that is not in its turn, and reports whether it
// is.
func (m *authority) look(s *AuthorityState, who int, turn Phase, yield authorityYield) bool {
	to := *s
	switch m.finds(s, s.Controllers[who].Change, turn) {
	case findsItsTurn:
		return true
	case findsItDone:
		to.Controllers[who] = m.mind(s.Change.verb(), s.Change)
		to.met(MetRepeated)
		yield(AuthorityAct{Kind: AuthorityRepeats, Who: int8(who)}, to)
	case findsItOver:
		to.Controllers[who] = Controller{}
		to.met(MetLate)
		yield(AuthorityAct{Kind: AuthorityLoses, Who: int8(who)}, to)
	}
	return false
}

// did offers a verb that took effect: heard of, so that the controller goes on to the
// next one, or not, so that it will say the same again.
func (m *authority) did(s *AuthorityState, to AuthorityState, act AuthorityAct, next ControllerPC, yield authorityYield) {
	unheard := to
	to.Controllers[act.Who].PC = next
	if next == ControllerIdle {
		to.Controllers[act.Who] = Controller{}
	}
	to.Controllers[act.Who].Position = 0
	yield(act, to)
	if s.Faults > 0 {
		unheard.Faults--
		act.Unheard = true
		yield(act, unheard)
	}
}

// judge notes a verb that is about to take effect out of its turn.
func (s *AuthorityState) judge(who int, turn Phase) {
	if s.Change.ID != s.Controllers[who].Change || s.Change.Phase != turn {
		s.Wrong |= WrongVerb
	}
}

// close is the one update that keeps new writers out. With the row lock it waits for
// everybody who holds the row; otherwise for nobody.
func (m *authority) close(s *AuthorityState, who int, yield authorityYield) {
	if !m.look(s, who, PhasePlanned, yield) {
		return
	}
	to := *s
	if m.window && s.Completed && m.target(s, who) == SideOld {
		to.Change.Phase = PhaseAborted
		to.Controllers[who] = Controller{}
		yield(AuthorityAct{Kind: AuthorityLoses, Who: int8(who)}, to)
		return
	}
	if m.way == byRowLock && s.holders() > 0 {
		if to.Controllers[who].PC = ControllerWaits; s.Controllers[who].PC != ControllerWaits {
			yield(AuthorityAct{Kind: AuthorityWaits, Who: int8(who)}, to)
		}
		return
	}
	to.judge(who, PhasePlanned)
	if s.Change.ID != s.Controllers[who].Change || s.Change.Phase > PhasePlanned {
		to.Wrong |= WrongAgain
	}
	to.Overtook = 0
	to.Change.To, to.Change.Phase = m.target(s, who), PhaseClosing
	to.Fence = s.Fence.Close()
	m.did(s, to, AuthorityAct{Kind: AuthorityCloses, Who: int8(who)}, ControllerDrains, yield)
}

// target is where a controller moves authority to.
func (m *authority) target(s *AuthorityState, who int) Side {
	if m.changeID {
		return s.Change.To
	}
	return s.Controllers[who].To
}

// holders are the transactions that were admitted and have not ended.
func (s *AuthorityState) holders() (n int) {
	for _, w := range s.Writers {
		if w.PC >= FencedAdmitted && w.Intent > 0 {
			n++
		}
	}
	return n
}

// drain takes lock A exclusively and lets go of it: everybody who was admitted has
// ended then. When its grace is over it goes on, and who is left will be refused.
func (m *authority) drain(s *AuthorityState, who int, yield authorityYield) {
	if !m.look(s, who, PhaseClosing, yield) {
		return
	}
	if m.way == byHorizon && s.Controllers[who].PC == ControllerDrains {
		m.horizon(s, who, yield)
		return
	}
	waits := false
	to := *s
	for i := range to.Writers {
		w := &to.Writers[i]
		if w.Horizon || m.lockA && w.PC >= FencedAdmitted && w.Intent > 0 {
			waits, w.Overdue, w.Horizon = true, w.Intent > 0, false
		}
	}
	act := AuthorityAct{Kind: AuthorityDrains, Who: int8(who)}
	to.judge(who, PhaseClosing)
	to.Change.Phase = PhaseDrained
	if !waits {
		m.did(s, to, act, ControllerSeals, yield)
		return
	}
	if s.Faults > 0 {
		to.Faults--
		to.Controllers[who].PC = ControllerSeals
		act.Kind = AuthorityGraceOver
		yield(act, to)
	}
}

// horizon notes which transactions have an id by now: those that have written.
func (m *authority) horizon(s *AuthorityState, who int, yield authorityYield) {
	to := *s
	to.Controllers[who].PC = ControllerAwaits
	for i := range to.Writers {
		to.Writers[i].Horizon = to.Writers[i].PC >= FencedWorked
	}
	yield(AuthorityAct{Kind: AuthorityHorizon, Who: int8(who)}, to)
}

// seal takes lock B exclusively: no commit is under way then. It reads the highest
// sequence and stores it.
func (m *authority) seal(s *AuthorityState, who int, yield authorityYield) {
	if !m.look(s, who, PhaseDrained, yield) {
		return
	}
	to := *s
	position := s.Committed
	if !m.position {
		if s.Controllers[who].PC == ControllerSeals {
			to.Controllers[who].PC, to.Controllers[who].Position = ControllerHasRead, s.Committed
			yield(AuthorityAct{Kind: AuthorityPosition, Who: int8(who)}, to)
			return
		}
		position = s.Controllers[who].Position
	}
	if m.lockB && m.commitTail && s.committing() {
		return // it waits
	}
	to.judge(who, PhaseDrained)
	if position < s.Committed {
		to.Wrong |= WrongPosition
	}
	to.Change.Phase = PhaseSealed
	to.Fence = s.Fence.Seal(position)
	m.did(s, to, AuthorityAct{Kind: AuthoritySeals, Who: int8(who)}, ControllerImports, yield)
}

// committing reports whether a transaction is between its check and its commit.
func (s *AuthorityState) committing() bool {
	for _, w := range s.Writers {
		if w.PC == FencedChecked {
			return true
		}
	}
	return false
}

// watch is the watchdog that every daemon runs. It looks and acts in two steps, and
// what it acts on may have changed meanwhile.
func (m *authority) watch(s *AuthorityState, yield authorityYield) {
	to := *s
	switch {
	case s.Watchdog == 0:
		if m.deadline && s.Fence.State != FenceOpen {
			to.Watchdog = s.Change.ID
			yield(AuthorityAct{Kind: AuthorityExpires}, to)
		}
	case m.changeID && s.Change.ID != s.Watchdog, m.state && s.Fence.State == FenceOpen:
		to.Watchdog = 0
		yield(AuthorityAct{Kind: AuthorityTooLate}, to)
	default:
		if s.Change.ID != s.Watchdog || !s.Change.Phase.under() {
			to.Wrong |= WrongVerb
		}
		to.Watchdog = 0
		m.reopen(&to)
		yield(AuthorityAct{Kind: AuthorityReopens}, to)
	}
}

// reopen is an abort: the same side goes on under the same epoch, and whoever was late
// for the grace is late no longer.
func (m *authority) reopen(to *AuthorityState) {
	to.Fence = to.Fence.Abort()
	to.Change.Phase = PhaseAborted
	m.forget(to)
	for i := range to.Writers {
		w := &to.Writers[i]
		w.Overdue = w.Overdue && w.Epoch != to.Fence.Epoch
	}
}

// forget drops a report that nothing would take for another's.
func (m *authority) forget(to *AuthorityState) {
	if m.ownReport && m.state {
		to.Change.Passed = 0
	}
}

// operate gives up the way back, and then retires the old side.
func (m *authority) operate(s *AuthorityState, yield authorityYield) {
	if s.Fence.Writer != SideNew || m.state && s.Fence.State != FenceOpen {
		return
	}
	to := *s
	switch {
	case !s.Completed:
		to.Completed = true
		yield(AuthorityAct{Kind: AuthorityCompletes}, to)
	case !s.Retired:
		to.Retired = true
		yield(AuthorityAct{Kind: AuthorityRetires}, to)
	}
}
