package specs

// AuthorityAct is a step: what is done, and by which process, counted from 0: a
// writer or a controller, as the kind says. Steps of nobody in particular have Who 0.
type AuthorityAct struct {
	Kind   AuthorityKind
	Who    int8
	Intent int8 // counted from 1; 0 where the step is about none

	// Unheard is a commit, or a verb, that takes effect while its reply is lost: a
	// fault.
	Unheard bool
}

// AuthorityKind is what a step does. The words of a controller's kinds are the verbs
// of railctl authority.
type AuthorityKind uint8

// The steps. Those marked "fault" spend one of the budget.
const (
	AuthorityReads   AuthorityKind = iota // only without second-look: admission, before it has lock A
	AuthorityAdmits                       // admission: with second-look, the fence is read under lock A
	AuthorityAnswers                      // from the receipt that the side has
	AuthorityBegins                       // fault: a script that asks nobody writes
	AuthorityWorks                        // the rows, the intent's among them
	AuthorityEnds                         // without a write
	AuthorityChecks                       // the tail of the commit: the fence takes it
	AuthorityRefused                      // the tail of the commit: the fence does not
	AuthorityCommits
	AuthorityFails // fault: the transaction is gone, and nobody says so
	AuthorityOther // fault: an intent's id comes with other content

	AuthorityPlans
	AuthorityTakesUp // a controller reads what is to be done next
	AuthorityWaits   // only with the row lock: for the row
	AuthorityCloses
	AuthorityHorizon // only with the xid horizon: which transactions are there
	AuthorityDrains
	AuthorityGraceOver // fault: the drain ends with writers still there
	AuthorityPosition  // only without position-under-lock
	AuthoritySeals
	AuthorityImports
	AuthorityMisses // fault: an import that leaves the last write out
	AuthorityBlind  // fault: an import that cannot tell what became of an intent
	AuthorityVerifies
	AuthorityBlocks // verify: the report does not pass
	AuthorityAdvances
	AuthorityAborts
	AuthorityRepeats // a verb that was done already: the stored result
	AuthorityLoses   // a verb whose closing is over, or whose way was given up
	AuthorityDies    // fault: the controller, for good

	AuthorityExpires // the watchdog finds a closing past its deadline
	AuthorityReopens // the watchdog aborts it
	AuthorityTooLate // the watchdog finds that the closing is over

	AuthorityCompletes
	AuthorityRetires
)

func (a AuthorityAct) fault() bool {
	switch a.Kind {
	case AuthorityBegins, AuthorityFails, AuthorityOther, AuthorityGraceOver, AuthorityMisses, AuthorityBlind, AuthorityDies:
		return true
	default:
		return a.Unheard
	}
}

func (k AuthorityKind) String() string {
	return [...]string{
		AuthorityReads:     "read",
		AuthorityAdmits:    "admit",
		AuthorityAnswers:   "answer",
		AuthorityBegins:    "begin unasked",
		AuthorityWorks:     "work",
		AuthorityEnds:      "end",
		AuthorityChecks:    "commit checked",
		AuthorityRefused:   "commit refused",
		AuthorityCommits:   "commit",
		AuthorityFails:     "fail",
		AuthorityOther:     "other content",
		AuthorityPlans:     "plan",
		AuthorityTakesUp:   "resume",
		AuthorityWaits:     "close waits",
		AuthorityCloses:    "close",
		AuthorityHorizon:   "drain reads the horizon",
		AuthorityDrains:    "drain",
		AuthorityGraceOver: "drain cut short",
		AuthorityPosition:  "seal reads the position",
		AuthoritySeals:     "seal",
		AuthorityImports:   "import",
		AuthorityMisses:    "import misses",
		AuthorityBlind:     "import blind",
		AuthorityVerifies:  "verify",
		AuthorityBlocks:    "verify blocks",
		AuthorityAdvances:  "advance",
		AuthorityAborts:    "abort",
		AuthorityRepeats:   "repeat",
		AuthorityLoses:     "lose",
		AuthorityDies:      "die",
		AuthorityExpires:   "watchdog finds",
		AuthorityReopens:   "watchdog aborts",
		AuthorityTooLate:   "watchdog too late",
		AuthorityCompletes: "complete",
		AuthorityRetires:   "retire",
	}[k]
}
