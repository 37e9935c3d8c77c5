package specs

import "briefrail/internal/model"

// properties are the same for every variant of the same bounds: what no defence makes
// possible is left out where there are too few faults, writers or changes for it.
func (m *authority) properties() []model.Property[AuthorityState] {
	all := append(m.nevers(),
		authorityProperty(model.Recoverable, "one side may write", func(s AuthorityState) bool {
			return s.Fence.State == FenceOpen && !(s.Retired && s.Fence.Writer == SideOld)
		}),
		authorityProperty(model.Recoverable, "every intent is answered", m.answered),
		authorityProperty(model.Reachable, "authority crosses", func(s AuthorityState) bool { return s.Fence.Writer == SideNew }),
		authorityReaches("a write is accepted while its scope closes", MetGrace),
		authorityReaches("an abort reopens, and a write is accepted", MetReopened),
		authorityReaches("a late controller loses", MetLate),
		authorityReaches("a repeated verb returns the stored result", MetRepeated),
		authorityProperty(model.Reachable, "the old side is retired", func(s AuthorityState) bool { return s.Retired }))
	if m.changes > 1 {
		all = append(all, authorityProperty(model.Reachable, "authority crosses back", func(s AuthorityState) bool {
			return s.Fence.Writer == SideOld && s.Crossed == 2
		}))
	}
	if m.writers > 1 {
		all = append(all, authorityReaches("the new side's write is accepted", MetNewWrites))
	}
	if m.faults > 0 {
		all = append(all, m.reachedByFaults()...)
	}
	return all
}

func (m *authority) reachedByFaults() []model.Property[AuthorityState] {
	all := []model.Property[AuthorityState]{
		authorityReaches("a write is refused at its commit", MetCommitOff),
		authorityReaches("a dead controller's closing is ended by another", MetTakenUp),
		authorityReaches("a report blocks", MetBlocked),
		authorityReaches("a lost reply is answered from the receipt", MetReceipt),
		authorityReaches("an unknown intent is found not to have happened", MetFoundNot),
	}
	if m.writers > 1 {
		all = append(all, authorityReaches("a lost reply is answered by the other side", MetImported))
	}
	return all
}

// nevers are the properties that one state can break.
func (m *authority) nevers() []model.Property[AuthorityState] {
	never := func(name string, at func(AuthorityState) bool) model.Property[AuthorityState] {
		return authorityProperty(model.Never, name, at)
	}
	went := func(w AuthorityWrong) func(AuthorityState) bool {
		return func(s AuthorityState) bool { return s.Wrong&w != 0 }
	}
	return []model.Property[AuthorityState]{
		never("two open sides", AuthorityState.bothOpen),
		never("a write in the other side's epoch", went(WrongOther)),
		never("a late write", went(WrongLate)),
		never("an accepted write beyond the final sequence", went(WrongPosition)),
		never("the side in charge lacks an accepted write", func(s AuthorityState) bool {
			return upTo(s.Committed)&^s.Has[s.Fence.Writer] != 0
		}),
		never("an intent is executed twice", func(s AuthorityState) bool {
			for _, i := range s.Intents {
				if i.Effects&(i.Effects-1) != 0 {
					return true
				}
			}
			return false
		}),
		never("an answer for other content", went(WrongContent)),
		never("an admitted write is cut off within its grace", went(WrongCut)),
		never("authority moves without a report of its closing", went(WrongReport)),
		never("a verb takes effect out of its turn", went(WrongVerb)),
		never("a change is carried out twice", went(WrongAgain)),
		never("epochs and crossings differ", func(s AuthorityState) bool { return s.Fence.Epoch != s.Crossed+1 }),
		never("authority goes where the way was given up", func(s AuthorityState) bool {
			return s.Completed && s.Fence.Writer == SideOld
		}),
		never("the retired side writes", went(WrongRetired)),
		never("the closer is overtaken without end", func(s AuthorityState) bool { return int(s.Overtook) > m.writers }),
		never("the model's arrays do not suffice", went(WrongArrays)),
	}
}

// bothOpen reports whether transactions of both sides are past everything that could
// refuse them.
func (s AuthorityState) bothOpen() bool {
	var sides [2]bool
	for who, w := range s.Writers {
		if w.PC == FencedChecked {
			sides[sideOf(who)] = true
		}
	}
	return sides[SideOld] && sides[SideNew]
}

// answered reports whether every client has its answer, or the side in charge has no
// process here that could give it.
func (m *authority) answered(s AuthorityState) bool {
	if int(s.Fence.Writer) >= m.writers {
		return true
	}
	for i := range m.intents {
		if !s.Intents[i].Told {
			return false
		}
	}
	return true
}

func authorityProperty(kind model.Kind, name string, at func(AuthorityState) bool) model.Property[AuthorityState] {
	return model.Property[AuthorityState]{Name: name, Kind: kind, At: at}
}

func authorityReaches(name string, met AuthorityMet) model.Property[AuthorityState] {
	return authorityProperty(model.Reachable, name, func(s AuthorityState) bool { return s.Met&met != 0 })
}
