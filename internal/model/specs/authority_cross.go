package specs

import "math/bits"

// bring imports what the side in charge has accepted, through the final sequence, and
// with it what became of the intents that it was sent. Nothing of this scope can be
// committed any more, so an intent without a write did not happen.
func (m *authority) bring(s *AuthorityState, who int, yield authorityYield) {
	m.hurry(s, who, yield)
	if !m.look(s, who, PhaseSealed, yield) {
		return
	}
	act := AuthorityAct{Kind: AuthorityImports, Who: int8(who)}
	to := *s
	to.judge(who, PhaseSealed)
	to.Controllers[who].PC = ControllerVerifies
	brought := s.Has[s.Fence.Writer] & upTo(s.Fence.Final)
	all := to
	all.Has[s.Change.To] |= brought
	met := all.resolve(0)
	all.met(met)
	yield(act, all)
	if s.Faults == 0 {
		return
	}
	to.Faults--
	if missed := brought &^ s.Has[s.Change.To]; missed != 0 {
		some := to
		last := Writes(1) << (bits.Len8(uint8(missed)) - 1)
		some.Has[s.Change.To] |= brought &^ last
		some.resolve(0)
		act.Kind = AuthorityMisses
		yield(act, some)
	}
	for i := range m.intents {
		if s.Intents[i].Unknown {
			blind := to
			blind.Has[s.Change.To] |= brought
			blind.resolve(i + 1)
			act.Kind, act.Intent = AuthorityBlind, int8(i+1)
			yield(act, blind)
		}
	}
}

// resolve finds out what became of every intent but one, counted from 1.
func (s *AuthorityState) resolve(but int) (met AuthorityMet) {
	for i := range s.Intents {
		if i+1 != but && s.Intents[i].Unknown {
			s.Intents[i].Unknown = false
			if s.Intents[i].Effects == 0 {
				met |= MetFoundNot
			}
		}
	}
	return met
}

// verify stores a report. It passes when the side to come has everything through the
// final sequence, and of every intent an answer is known.
func (m *authority) verify(s *AuthorityState, who int, yield authorityYield) {
	m.hurry(s, who, yield)
	if !m.look(s, who, PhaseSealed, yield) {
		return
	}
	to := *s
	to.judge(who, PhaseSealed)
	act, next := AuthorityAct{Kind: AuthorityVerifies, Who: int8(who)}, ControllerAdvances
	if m.passes(s) {
		to.Change.Passed = s.Change.ID
	} else {
		act.Kind = AuthorityBlocks
		to.met(MetBlocked)
		if m.report {
			next = ControllerAborts
		}
	}
	m.did(s, to, act, next, yield)
}

// passes is the report of the invariants.
func (m *authority) passes(s *AuthorityState) bool {
	if upTo(s.Fence.Final)&^s.Has[s.Change.To] != 0 {
		return false
	}
	for _, i := range s.Intents {
		if i.Unknown && m.unknown {
			return false
		}
	}
	return true
}

// hurry is an advance that somebody asks for before the report, where it is not
// refused.
func (m *authority) hurry(s *AuthorityState, who int, yield authorityYield) {
	if s.Change.verified() || !m.reported(s) || m.finds(s, s.Controllers[who].Change, PhaseSealed) != findsItsTurn {
		return
	}
	m.move(s, who, yield)
}

// reported is what the advance asks of the report.
func (m *authority) reported(s *AuthorityState) bool {
	switch {
	case !m.report:
		return true
	case m.ownReport:
		return s.Change.verified()
	default:
		return s.Change.Passed != 0
	}
}

// advance moves authority, in one transaction.
func (m *authority) advance(s *AuthorityState, who int, yield authorityYield) {
	if !m.look(s, who, PhaseSealed, yield) {
		return
	}
	if !m.reported(s) {
		to := *s
		to.Controllers[who] = Controller{}
		yield(AuthorityAct{Kind: AuthorityLoses, Who: int8(who)}, to)
		return
	}
	m.move(s, who, yield)
}

func (m *authority) move(s *AuthorityState, who int, yield authorityYield) {
	to := *s
	to.judge(who, PhaseSealed)
	if !s.Change.verified() {
		to.Wrong |= WrongReport
	}
	if s.Change.Phase == PhaseAdvanced {
		to.Wrong |= WrongAgain
	}
	if s.Controllers[1-who].PC == ControllerGone {
		to.met(MetTakenUp)
	}
	to.Crossed++
	to.Fence = s.Fence.Advance(m.target(s, who))
	to.Change.Phase = PhaseAdvanced
	m.forget(&to)
	m.did(s, to, AuthorityAct{Kind: AuthorityAdvances, Who: int8(who)}, ControllerIdle, yield)
}

// abort gives a closing up that its report keeps from passing.
func (m *authority) abort(s *AuthorityState, who int, yield authorityYield) {
	if !m.look(s, who, PhaseSealed, yield) {
		return
	}
	to := *s
	to.judge(who, PhaseSealed)
	m.reopen(&to)
	m.did(s, to, AuthorityAct{Kind: AuthorityAborts, Who: int8(who)}, ControllerIdle, yield)
}
