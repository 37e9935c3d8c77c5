package specs

// demand makes one demand, in one step or, where it is not atomic, in two: a look
// at the row, and the write that seemed right, which does nothing where that no
// longer holds. The producer takes it as made in any case.
func (l *ledger) demand(s *LedgerState, yield ledgerYield) {
	to := *s
	switch {
	case s.Demander != DemanderNone:
		if sawRunning := s.Demander == DemanderSawRunning; sawRunning == (s.Row.Status == StatusRunning) {
			l.demanded(&to)
		}
		to.Demander = DemanderNone
		to.Asked++
		yield(LedgerAct{Kind: LedgerDemandWrites}, to)
	case s.Demands == 0:
	case l.atomic:
		l.demanded(&to)
		to.Demands--
		to.Asked++
		yield(LedgerAct{Kind: LedgerDemand}, to)
	default:
		to.Demands--
		to.Demander = DemanderSawNot
		if s.Row.Status == StatusRunning {
			to.Demander = DemanderSawRunning
		}
		yield(LedgerAct{Kind: LedgerDemandReads}, to)
	}
}

// demanded writes a demand.
func (l *ledger) demanded(to *LedgerState) {
	before := to.Row
	to.Row = before.Demand(1)
	if !l.flag {
		to.Row.Flag = false
	}
	if before.Status == StatusParked && to.Row.Status == StatusQueued {
		to.met(MetRevived)
	}
	if before.Status == StatusParked || before.Flag != to.Row.Flag {
		to.Extra++
	}
}

// environment is the sweep, time, and a failover.
func (l *ledger) environment(s *LedgerState, yield ledgerYield) {
	if s.Row.Status != StatusRunning {
		return
	}
	holder, alive := s.Row.Holder.Worker()
	if l.sweep && s.Row.Expired {
		to := *s
		to.Row = s.Row.Fail(l.most, false)
		if alive {
			to.Workers[holder].Run = RunLost // the worker itself goes on: a zombie
		}
		yield(LedgerAct{Kind: LedgerSweeps}, to)
	}
	if l.lease && !s.Row.Expired {
		l.lapse(s, holder, alive, yield)
	}
	if s.Faults > 0 && alive {
		l.rewind(s, holder, yield)
	}
}

// lapse lets the lease run out: for nothing where nobody renews it, else for a
// fault that keeps the holder silent for so long.
func (l *ledger) lapse(s *LedgerState, holder int, alive bool, yield ledgerYield) {
	to := *s
	to.Row = s.Row.Lapse()
	switch {
	case !alive:
		yield(LedgerAct{Kind: LedgerLapses}, to)
	case !l.renewal:
		yield(LedgerAct{LedgerLapses, int8(holder)}, to)
	case s.Faults > 0:
		to.Faults--
		yield(LedgerAct{LedgerPauses, int8(holder)}, to)
	}
}

// rewind is a failover to a replica that lacks the last claim and nothing else:
// what was written to the row since would be lost before it.
func (l *ledger) rewind(s *LedgerState, holder int, yield ledgerYield) {
	w := s.Workers[holder]
	if s.Row.Requested != s.Row.Claimed || w.Run != RunOpen || w.PC > WorkerBuilt {
		return
	}
	to := *s
	to.Faults--
	to.Row = s.Row.Rewind()
	to.Tries--
	to.Workers[holder].Run = RunGone
	yield(LedgerAct{LedgerRewinds, int8(holder)}, to)
}
