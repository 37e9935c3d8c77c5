package specs

type ledgerYield = func(LedgerAct, LedgerState)

// next offers the steps of each worker in turn, then demand, then what time and
// the environment do.
func (l *ledger) next(s LedgerState, yield ledgerYield) {
	if s.Wrong&WrongBeyond != 0 {
		return // the arrays would lie from here on
	}
	s.Met = 0
	for who := range l.workers {
		switch s.Workers[who].PC {
		case WorkerIdle:
			l.claim(&s, who, yield)
			continue
		case WorkerBuilding:
			l.build(&s, who, yield)
		case WorkerBuilt, WorkerInserted:
			l.land(&s, who, yield)
		case WorkerUnsure:
			l.settle(&s, who, yield)
		}
		if s.Faults > 0 {
			l.lose(&s, who, yield)
		}
	}
	l.demand(&s, yield)
	l.environment(&s, yield)
}

// live reports whether the ledger takes a worker's write.
func (l *ledger) live(s *LedgerState, who int) bool {
	switch {
	case s.Row.Status != StatusRunning:
		return false
	case !l.token:
		return true
	case !l.runID:
		return s.Row.Claimed == uint16(s.Workers[who].Gen)
	default:
		return s.Row.Holder == HolderOf(who)
	}
}

// claim takes a queued row. That a backoff or a settle time is over is a matter of
// waiting, and so always possible.
func (l *ledger) claim(s *LedgerState, who int, yield ledgerYield) {
	if s.Row.Status != StatusQueued {
		return
	}
	to := *s
	to.Row = s.Row.Claim(HolderOf(who))
	to.Tries++
	to.Workers[who] = LedgerWorker{PC: WorkerBuilding, Run: RunOpen, Gen: uint8(to.Row.Claimed), Seen: s.Asked}
	if s.Covered == s.Asked {
		to.Wrong |= WrongNeedless
	}
	if to.Row.Claimed > maxGeneration {
		to.Wrong |= WrongBeyond
	}
	yield(LedgerAct{LedgerClaims, int8(who)}, to)
}

// build renews the lease or ends the build. A worker that notices that
// it is fenced ends without a write.
func (l *ledger) build(s *LedgerState, who int, yield ledgerYield) {
	to := *s
	switch {
	case !l.renewal:
	case l.live(s, who):
		to.Row = s.Row.Renew()
		yield(LedgerAct{LedgerRenews, int8(who)}, to)
	default:
		to.end(who)
		yield(LedgerAct{LedgerRenewFenced, int8(who)}, to)
	}
	to = *s
	to.Workers[who].PC = WorkerBuilt
	yield(LedgerAct{LedgerBuilds, int8(who)}, to)
}

// lose ends a claim for a fault: a failure of the builder, or of the database that
// refuses the frame; a release, for a stop or a builder that is down for everybody,
// which may come while the fate of a landing is not known, as the token then tells; a
// crash.
func (l *ledger) lose(s *LedgerState, who int, yield ledgerYield) {
	if s.Workers[who].PC != WorkerUnsure {
		l.giveUp(s, who, LedgerFails, LedgerFailFenced, s.Row.Fail(l.most, false), yield)
		l.giveUp(s, who, LedgerGivesUp, LedgerGiveUpFenced, s.Row.Fail(l.most, true), yield)
	}
	l.giveUp(s, who, LedgerReleases, LedgerReleaseFenced, s.Row.Release(), yield)
	l.crash(s, who, yield)
}

// giveUp ends a claim by writing the row, or is refused.
func (l *ledger) giveUp(s *LedgerState, who int, write, fenced LedgerKind, row Row, yield ledgerYield) {
	to := *s
	to.Faults--
	to.end(who)
	if !l.live(s, who) {
		yield(LedgerAct{fenced, int8(who)}, to)
		return
	}
	to.Row = row
	if write == LedgerReleases {
		to.Tries--
	}
	yield(LedgerAct{write, int8(who)}, to)
}

// crash ends the worker and leaves the row as it is. So does a worker that cannot
// reach the database for as long as its lease: it stops without a word.
func (l *ledger) crash(s *LedgerState, who int, yield ledgerYield) {
	to := *s
	to.Faults--
	if s.Row.Holder == HolderOf(who) {
		to.Row.Holder = Dead
	}
	to.end(who)
	yield(LedgerAct{LedgerCrashes, int8(who)}, to)
}

// land writes the landing. Without fenced-insert the frame's row came in before it,
// in a step that nothing guards.
func (l *ledger) land(s *LedgerState, who int, yield ledgerYield) {
	if !l.fencedInsert && s.Workers[who].PC == WorkerBuilt {
		to := *s
		to.insert(who)
		to.Workers[who].PC = WorkerInserted
		yield(LedgerAct{LedgerInserts, int8(who)}, to)
		return
	}
	if l.live(s, who) {
		l.landLive(s, who, yield)
	} else {
		to := *s
		to.end(who)
		to.met(refusedAs(s.Workers[who].Run))
		yield(LedgerAct{LedgerLandFenced, int8(who)}, to)
	}
	if s.Faults > 0 {
		to := *s
		to.Faults--
		to.Workers[who].PC = WorkerUnsure
		yield(LedgerAct{LedgerLandCut, int8(who)}, to)
	}
}

// landLive lands, and the worker hears of it or not.
func (l *ledger) landLive(s *LedgerState, who int, yield ledgerYield) {
	to := *s
	met := l.landed(&to, who)
	unheard := to
	to.end(who)
	to.met(met)
	yield(LedgerAct{LedgerLands, int8(who)}, to)
	if s.Faults > 0 {
		unheard.Faults--
		unheard.Workers[who].PC, unheard.Workers[who].Run = WorkerUnsure, RunLanded
		yield(LedgerAct{LedgerLandUnheard, int8(who)}, unheard)
	}
}

// landed is the landing's one transaction. It returns what this one shows to be
// possible.
func (l *ledger) landed(to *LedgerState, who int) (met Met) {
	w, before := to.Workers[who], to.Row
	if before.Holder != HolderOf(who) {
		to.Wrong |= WrongUsurped
	}
	if uint16(w.Gen) < before.Landed {
		to.Wrong |= WrongBack
	}
	if l.fencedInsert {
		to.insert(who)
	}
	to.Row = before.Land(uint16(w.Gen))
	to.Covered = max(to.Covered, w.Seen)
	to.Extra, to.Tries = 0, 0
	if before.Flag {
		met |= MetFollowUp
	}
	if before.Expired {
		met |= MetLapsed
	}
	// every claim takes a number, so more numbers than demands and attempts together
	// were handed out only where an attempt was handed back
	if before.Landed == 0 && before.Requested > uint16(to.Asked)+before.Attempts {
		met |= MetReleased
	}
	return met
}

// insert brings a frame's row in.
func (s *LedgerState) insert(who int) {
	frame := uint32(1) << s.Workers[who].Gen
	if s.Frames&frame != 0 {
		s.Wrong |= WrongTwice
	}
	if s.Frames > frame|(frame-1) {
		s.Wrong |= WrongBack
	}
	if s.Row.Status != StatusRunning || s.Row.Holder != HolderOf(who) {
		s.Wrong |= WrongStale
	}
	s.Frames |= frame
}

// settle asks the run's row what became of a landing, before the frame is given up
// or the builder called again. A stop may come before the answer.
func (l *ledger) settle(s *LedgerState, who int, yield ledgerYield) {
	to := *s
	switch s.Workers[who].Run {
	case RunOpen:
		to.Workers[who].PC = WorkerBuilt
		yield(LedgerAct{LedgerSettlesOpen, int8(who)}, to)
	case RunLanded:
		to.end(who)
		to.met(MetSettled)
		yield(LedgerAct{LedgerSettlesLanded, int8(who)}, to)
	default:
		to.end(who)
		to.met(refusedAs(s.Workers[who].Run))
		yield(LedgerAct{LedgerSettlesRefused, int8(who)}, to)
	}
}

// refusedAs names a refusal after what the run's row says.
func refusedAs(run RunRow) Met {
	switch run {
	case RunLost:
		return MetRefused
	case RunGone:
		return MetRewound
	default:
		return 0
	}
}

// end is how a worker stops, whatever the reason.
func (s *LedgerState) end(who int) { s.Workers[who] = LedgerWorker{} }

// met notes a step that must be possible. One witness is enough, so it is noted in
// calm states only: there are few of them, and the search grows by that much.
func (s *LedgerState) met(m Met) {
	for _, w := range s.Workers {
		if w.PC != WorkerIdle {
			return
		}
	}
	s.Met = m
}
