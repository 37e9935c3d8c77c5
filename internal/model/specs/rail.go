package specs

import (
	"briefrail/internal/model"
)

// LedgerState is one matter's job row, the workers that race for it, a source of
// demand and the sweep. What only the properties need is a ghost: it has no column
// and decides nothing.
type LedgerState struct {
	Row     Row
	Workers [MaxWorkers]LedgerWorker

	// Frames are the generations that have a frame, bit by bit.
	Frames uint32

	Asked   uint8 // ghost: demands made
	Covered uint8 // ghost: demands contained in a landed frame

	// Extra is a ghost: demands since the last landing each of which allows one more
	// attempt, as they set the flag or revived a parked row.
	Extra uint8

	// Tries is a ghost: claims since the last landing that were not handed back. The
	// row says the same in Attempts; a row that miscounts must not judge itself.
	Tries uint8

	Demander Demander
	Wrong    Wrong // ghost: what has gone wrong
	Met      Met   // ghost: what the last step was, noted only where it leaves every worker idle
	Faults   uint8 // fault budget left
	Demands  uint8 // demands that may still come
}

// LedgerWorker is one worker; all zero while it holds no claim.
type LedgerWorker struct {
	PC   WorkerPC
	Run  RunRow // what its run's row says
	Gen  uint8  // generation of its claim
	Seen uint8  // ghost: demands made before its claim
}

// WorkerPC is where a worker stands.
type WorkerPC uint8

// A worker's way through one claim.
const (
	WorkerIdle     WorkerPC = iota
	WorkerBuilding          // its builder runs
	WorkerBuilt             // it holds a checked frame
	WorkerInserted          // only without fenced-insert: the frame's row is in, the landing is not
	WorkerUnsure            // it does not know whether its landing committed
)

func (p WorkerPC) String() string {
	return [...]string{"idle", "building", "built", "inserted", "unsure"}[p]
}

// RunRow is what a worker finds when it asks for its run.
type RunRow uint8

// RunLost is a run that somebody else closed; RunGone has no row, as a rewind took
// it.
const (
	RunNone RunRow = iota
	RunOpen
	RunLanded
	RunLost
	RunGone
)

func (r RunRow) String() string { return [...]string{"none", "open", "landed", "expired", "gone"}[r] }

// Demander is the half-made demand where demand is not atomic.
type Demander uint8

// What the demander saw; DemanderNone where none is under way.
const (
	DemanderNone Demander = iota
	DemanderSawRunning
	DemanderSawNot
)

func (d Demander) String() string { return [...]string{"none", "saw running", "saw not running"}[d] }

// Wrong is a set of violations that a state cannot show afterwards.
type Wrong uint8

// The violations, each a property of the model.
const (
	WrongTwice    Wrong = 1 << iota // a second frame of one generation
	WrongStale                      // a frame of a claim that was not the live one
	WrongUsurped                    // a landing by another claim than the live one
	WrongBack                       // landed decreased, or a frame older than the newest came in
	WrongNeedless                   // a claim although everything asked for was covered
	WrongBeyond                     // the model's own arrays did not suffice
)

// Met is a set of steps that must be possible and that a state alone does not show.
type Met uint8

// The steps, each a property of the model.
const (
	MetFollowUp Met = 1 << iota // a landing queued the demand that came during its build
	MetRefused                  // the landing of a zombie was refused
	MetSettled                  // a lost answer was settled as landed
	MetLapsed                   // a lease had run out, and the frame landed all the same
	MetRevived                  // demand on a parked row
	MetReleased                 // a frame landed after a release that charged no attempt
	MetRewound                  // the landing of a claim that a failover lost was refused
)

// What the arrays hold.
const (
	MaxWorkers    = 4
	maxGeneration = 31
	maxDemands    = 6
	maxAttempts   = 6
	maxFaults     = 10
)

// ledger is a variant of the design.
type ledger struct {
	workers  int
	faults   uint8
	demands  uint8
	attempts uint16 // the cap, also where nobody keeps it
	most     uint16 // the cap that is kept; 0 for none

	lease, token, runID, renewal, flag, sweep, atomic, fencedInsert bool
}

func ledgerEntry() Entry {
	return Entry{
		Name:     "ledger",
		About:    "a matter's job row: claimed, built, landed under its token, swept, and asked for again",
		Workers:  Bound{Default: 2, Most: MaxWorkers},
		Faults:   Bound{Default: 2, Most: maxFaults},
		Demands:  Bound{Default: 2, Most: maxDemands},
		Attempts: Bound{Default: 2, Most: maxAttempts},
		Switches: []Switch{
			{"lease", "a claim runs out and is taken from a silent holder"},
			{"token", "a write of the holder is refused unless its claim is the live one"},
			{"run_id", "the token is the run's random id beside the generation"},
			{"renewal", "a worker that is alive keeps its lease"},
			{"rebuild-flag", "demand during a build is marked, and its landing queues the follow-up"},
			{"sweep", "claims whose lease has run out are failed"},
			{"attempt-cap", "a job whose attempts are used up is parked"},
			{"atomic-demand", "demand looks at the row and writes it in one step"},
			{"fenced-insert", "the frame's row comes in with the landing, in one transaction"},
		},
		build: func(s settings) Checked {
			return checked[LedgerState, LedgerAct]{title: s.title(), model: newLedger(s).model()}
		},
	}
}

// Ledger makes the variant of the ledger's model that the options choose, with its
// types, for whoever replays the graph against the real code.
func Ledger(o Options) (model.Model[LedgerState, LedgerAct], error) {
	s, err := ledgerEntry().settle(o)
	if err != nil {
		return model.Model[LedgerState, LedgerAct]{}, err
	}
	return newLedger(s).model(), nil
}

func newLedger(s settings) *ledger {
	l := &ledger{
		workers: s.workers, faults: uint8(s.faults), demands: uint8(s.demands), attempts: uint16(s.attempts),
		lease: s.has("lease"), token: s.has("token"), runID: s.has("run_id"), renewal: s.has("renewal"),
		flag: s.has("rebuild-flag"), sweep: s.has("sweep"), atomic: s.has("atomic-demand"), fencedInsert: s.has("fenced-insert"),
	}
	if s.has("attempt-cap") {
		l.most = l.attempts
	}
	return l
}

func (l *ledger) model() model.Model[LedgerState, LedgerAct] {
	return model.Model[LedgerState, LedgerAct]{
		Name:       "ledger",
		Initial:    LedgerState{Faults: l.faults, Demands: l.demands},
		Next:       l.next,
		Label:      ledgerLabel,
		Fault:      LedgerAct.fault,
		Describe:   l.describe,
		Properties: l.properties(),
	}
}
