package specs

import "briefrail/internal/model"

// properties are the same for every variant of the same bounds: what no defence
// makes possible is left out where there are too few faults or demands for it.
func (l *ledger) properties() []model.Property[LedgerState] {
	all := append(l.nevers(),
		model.Property[LedgerState]{
			Name: "current or parked", Kind: model.Recoverable, At: func(s LedgerState) bool { return s.current() || s.Row.Status == StatusParked },
		},
		reachable("a frame lands", func(s LedgerState) bool { return s.Frames != 0 && s.Row.Landed > 0 }),
		reachable("all demand is covered", func(s LedgerState) bool { return s.Demands == 0 && s.current() }))
	if l.demands > 1 {
		all = append(all, reachable("a landing queues the follow-up", happens(MetFollowUp)))
	}
	if l.faults == 0 {
		return all
	}
	all = append(all,
		reachable("a lapsed lease lands all the same", happens(MetLapsed)),
		reachable("a zombie is refused", happens(MetRefused)),
		reachable("a lost answer is settled as landed", happens(MetSettled)),
		reachable("a released claim lands later", happens(MetReleased)),
		reachable("a rewound claim is refused", happens(MetRewound)),
		reachable("a job is parked", func(s LedgerState) bool { return s.Row.Status == StatusParked }))
	if l.demands > 1 {
		all = append(all, reachable("a parked job is revived by demand", happens(MetRevived)))
	}
	return all
}

// nevers are the properties that one state can break.
func (l *ledger) nevers() []model.Property[LedgerState] {
	return []model.Property[LedgerState]{
		never("two frames of one generation", went(WrongTwice)),
		never("a frame of a stale claim", went(WrongStale)),
		never("landed by another's token", went(WrongUsurped)),
		never("landed goes back", went(WrongBack)),
		never("demand is forgotten", func(s LedgerState) bool {
			return s.Row.Status <= StatusIdle && s.Covered < s.Asked && s.Demander == DemanderNone
		}),
		never("a build that nobody asked for", went(WrongNeedless)),
		never("parked though nothing failed", func(s LedgerState) bool { return s.Row.Status == StatusParked && s.Faults == l.faults }),
		never("more attempts than the cap allows", func(s LedgerState) bool { return uint16(s.Tries) > l.attempts+uint16(s.Extra) }),
		never("the row misstates what is owed", func(s LedgerState) bool {
			return !s.Row.Sound() || s.Row.Owed != uint16(s.Asked-s.Covered)
		}),
		never("the model's arrays do not suffice", went(WrongBeyond)),
	}
}

// current reports whether the newest frame contains every demand.
func (s *LedgerState) current() bool {
	return s.Row.Status <= StatusIdle && s.Covered == s.Asked && s.Demander == DemanderNone
}

func never(name string, at func(LedgerState) bool) model.Property[LedgerState] {
	return model.Property[LedgerState]{Name: name, Kind: model.Never, At: at}
}

func reachable(name string, at func(LedgerState) bool) model.Property[LedgerState] {
	return model.Property[LedgerState]{Name: name, Kind: model.Reachable, At: at}
}

func went(w Wrong) func(LedgerState) bool { return func(s LedgerState) bool { return s.Wrong&w != 0 } }

func happens(m Met) func(LedgerState) bool { return func(s LedgerState) bool { return s.Met&m != 0 } }
