package specs

// LedgerAct is a step: what is done, and by which worker, counted from 0. Steps of
// nobody in particular have Who 0.
type LedgerAct struct {
	Kind LedgerKind
	Who  int8
}

// LedgerKind is what a step does. Where a write is refused because the claim is not
// the live one the step has a kind of its own.
type LedgerKind uint8

// The steps, in the order in which they are offered. Those marked "fault" spend one
// of the budget.
const (
	LedgerClaims LedgerKind = iota

	LedgerRenews
	LedgerRenewFenced // the build is cancelled
	LedgerBuilds
	LedgerFails         // fault: the builder, or the database that refuses the frame
	LedgerFailFenced    // fault
	LedgerGivesUp       // fault: the same, for good
	LedgerGiveUpFenced  // fault
	LedgerReleases      // fault: a stop, or a builder that is down for everybody
	LedgerReleaseFenced // fault

	LedgerInserts // only without fenced-insert
	LedgerLands
	LedgerLandFenced
	LedgerLandUnheard // fault: it lands, the answer is lost
	LedgerLandCut     // fault: cut before its commit, the worker does not know

	LedgerSettlesLanded  // the run's row says landed
	LedgerSettlesOpen    // it is still open: the landing is tried again
	LedgerSettlesRefused // somebody closed it, or it is gone

	LedgerCrashes // fault

	LedgerDemand
	LedgerDemandReads  // only without atomic-demand
	LedgerDemandWrites // only without atomic-demand

	LedgerSweeps
	LedgerLapses  // the lease of a dead holder; without renewal of any
	LedgerPauses  // fault: the holder is silent past its lease
	LedgerRewinds // fault: a failover loses the last claim
)

func (a LedgerAct) fault() bool {
	switch a.Kind {
	case LedgerFails, LedgerFailFenced, LedgerGivesUp, LedgerGiveUpFenced, LedgerReleases, LedgerReleaseFenced,
		LedgerLandUnheard, LedgerLandCut, LedgerCrashes, LedgerPauses, LedgerRewinds:
		return true
	default:
		return false
	}
}

func (k LedgerKind) String() string {
	return [...]string{
		LedgerClaims:         "claims",
		LedgerRenews:         "renews",
		LedgerRenewFenced:    "renew fenced",
		LedgerBuilds:         "builds",
		LedgerFails:          "fails",
		LedgerFailFenced:     "fail fenced",
		LedgerGivesUp:        "gives up",
		LedgerGiveUpFenced:   "give up fenced",
		LedgerReleases:       "releases",
		LedgerReleaseFenced:  "release fenced",
		LedgerInserts:        "inserts",
		LedgerLands:          "lands",
		LedgerLandFenced:     "land fenced",
		LedgerLandUnheard:    "land unheard",
		LedgerLandCut:        "land cut",
		LedgerSettlesLanded:  "settles landed",
		LedgerSettlesOpen:    "settles open",
		LedgerSettlesRefused: "settles refused",
		LedgerCrashes:        "crashes",
		LedgerDemand:         "demand",
		LedgerDemandReads:    "demand reads",
		LedgerDemandWrites:   "demand writes",
		LedgerSweeps:         "sweeps",
		LedgerLapses:         "lapses",
		LedgerPauses:         "pauses",
		LedgerRewinds:        "rewinds",
	}[k]
}
