package specs

import "briefrail/internal/model"

// AuthorityState is one scope's fence and its latest change, the transactions of the
// two sides that may write it, the controllers that carry changes out, the watchdog,
// and what both sides know of the writes that were accepted. What only the
// properties need is a ghost: it has no column and decides nothing.
type AuthorityState struct {
	Fence  Fence
	Change Change

	// Has are the accepted writes that each side knows, bit by bit in the order of
	// their commits: its own and those that were imported.
	Has [2]Writes

	Committed   uint8 // accepted writes: the highest sequence
	Intents     [MaxIntents]Intent
	Writers     [MaxWriters]AuthorityWriter
	Controllers [MaxControllers]Controller

	// Watchdog is the change that the watchdog has found past its deadline and is
	// about to abort, 0 for none.
	Watchdog uint8

	Completed bool // the way back was given up
	Retired   bool // the old side's role may write no more

	Crossed  uint8          // ghost: how often authority moved
	Overtook uint8          // ghost: admissions since a closer began to wait
	Wrong    AuthorityWrong // ghost: what has gone wrong
	Met      AuthorityMet   // ghost: what the last step was, noted only where it leaves every writer idle
	Faults   uint8          // fault budget left
}

// Writes is a set of accepted writes, the first lowest.
type Writes uint8

// Intent is what a person asked for once. It waits until its client has an answer.
type Intent struct {
	Told    bool   // the client has its answer
	Unknown bool   // the old side was sent it and has not been heard since
	Effects Writes // the writes that carry it out
}

// AuthorityWriter is a transaction of one side; all zero while there is none. The
// first process is of the old side, the second of the new one, and so on in turn.
type AuthorityWriter struct {
	PC      FencedPC
	Epoch   uint8 // the fence's, when it began
	Intent  uint8 // counted from 1; 0 for a script that asks nobody and just writes
	Overdue bool  // ghost: it was admitted, and was still there when the grace was over
	Saw     bool  // only without read-committed: the fence would have taken it when its snapshot was made
	Horizon bool  // only with the xid horizon: the closer waits for it
}

// FencedPC is where a transaction stands.
type FencedPC uint8

// A transaction's way.
const (
	FencedIdle     FencedPC = iota
	FencedRead              // only without second-look: it has read the fence, and does not hold lock A yet
	FencedAdmitted          // it holds lock A
	FencedWorked            // its rows are written, its commit is not under way
	FencedChecked           // the check at the tail of its commit has passed, and it holds lock B
)

func (p FencedPC) String() string {
	return [...]string{"idle", "about to be admitted", "admitted", "has written", "about to commit"}[p]
}

// Controller is one process that carries changes out; all zero while it has nothing
// to do. What it remembers is nothing but the change and the next verb.
type Controller struct {
	PC       ControllerPC
	Change   uint8
	To       Side  // only without change-id
	Position uint8 // only without position-under-lock
}

// ControllerPC is a controller's next verb.
type ControllerPC uint8

// The verbs in their order. ControllerGone is a controller that has died.
const (
	ControllerIdle ControllerPC = iota
	ControllerCloses
	ControllerWaits // only with the row lock: for every writer that holds the row
	ControllerDrains
	ControllerAwaits // only with the xid horizon: the writers that were there
	ControllerSeals
	ControllerHasRead // only without position-under-lock
	ControllerImports
	ControllerVerifies
	ControllerAdvances
	ControllerAborts
	ControllerGone
)

func (p ControllerPC) String() string {
	return [...]string{
		"idle", "about to close", "waits for the row", "about to drain", "waits for the horizon", "about to seal", "has read the position",
		"about to import", "about to verify", "about to advance", "about to abort", "dead",
	}[p]
}

// AuthorityWrong is a set of violations that a state cannot show afterwards.
type AuthorityWrong uint16

// The violations, each a property of the model.
const (
	WrongOther    AuthorityWrong = 1 << iota // a write of a side that its epoch does not name
	WrongLate                                // a write committed when its epoch was sealed
	WrongPosition                            // a seal whose position lies before an accepted write
	WrongCut                                 // an admitted write that was in time, refused at its commit
	WrongReport                              // authority moved without a passing report of its closing
	WrongVerb                                // a verb took effect out of its turn, or for a closing that was over
	WrongAgain                               // a change closed or advanced a second time
	WrongRetired                             // a write of the retired side
	WrongContent                             // an answer for other content
	WrongArrays                              // the model's own arrays did not suffice
)

// AuthorityMet is a set of steps that must be possible and that a state alone does
// not show.
type AuthorityMet uint16

// The steps, each a property of the model.
const (
	MetGrace     AuthorityMet = 1 << iota // a write accepted while its scope closes
	MetNewWrites                          // a write accepted of the new side
	MetReopened                           // a write accepted after an abort
	MetCommitOff                          // a write refused at its commit
	MetLate                               // a controller learnt that its closing was over
	MetRepeated                           // a verb that was done already got the stored result
	MetTakenUp                            // an advance by a controller that had not closed, the other being dead
	MetBlocked                            // a report that does not pass
	MetReceipt                            // a lost reply answered from the receipt
	MetImported                           // the same by the other side
	MetFoundNot                           // an unknown intent found not to have happened
)

// What the arrays hold.
const (
	MaxWriters         = 4
	MaxIntents         = 3
	MaxControllers     = 2
	maxAccepted        = 8
	maxChanges         = 4
	maxAuthorityFaults = 10
)

// The ways to keep writers out while authority moves.
const (
	byRowLock = "row-lock"
	byHorizon = "xid-horizon"
	byLocks   = "advisory-locks"
)

// authority is a variant of the design.
type authority struct {
	writers, intents int
	changes, faults  uint8
	way              string

	lockA, secondLook, commitTail, lockB, readCommitted, role, epoch bool
	position, changeID, state, report, ownReport, unknown, window    bool
	deadline, receipts, digest                                       bool
}

func authorityEntry() Entry {
	return Entry{
		Name:     "authority",
		About:    "the fence of one scope: closed to one side, drained, sealed, verified, and opened to the other",
		Workers:  Bound{Default: 2, Most: MaxWriters},
		Faults:   Bound{Default: 1, Most: maxAuthorityFaults},
		Demands:  Bound{Default: 1, Most: MaxIntents},
		Attempts: Bound{Default: 2, Most: maxChanges},
		Switches: []Switch{
			{"lock-a", "an admitted writer holds lock A to its end, and the drain takes it exclusively"},
			{"second-look", "admission reads the fence once more under lock A"},
			{"commit-tail", "the fence is read again at the tail of every commit"},
			{"lock-b", "that check and the commit are under lock B, which the seal takes exclusively"},
			{"read-committed", "a transaction whose snapshot is older than its commit is refused"},
			{"role", "a side that is not in charge is refused by its role"},
			{"epoch", "a write is refused unless the epoch is still that of its beginning"},
			{"position-under-lock", "the seal reads the final sequence under lock B"},
			{"state-check", "a verb takes effect only in the state in which it has its turn"},
			{"change-id", "a verb takes effect only for the change that it names, and a repeated one returns the stored result"},
			{"report", "the advance wants a passing report"},
			{"own-report", "the report is that of this closing"},
			{"unknown-blocks", "an intent whose outcome is not known keeps the report from passing"},
			{"window", "a close looks whether the way there was given up meanwhile"},
			{"deadline", "a watchdog reopens a scope whose closing takes too long"},
			{"receipts", "an intent whose receipt a side has is answered from it, and its id is a key"},
			{"digest", "an intent's id with other content is refused"},
		},
		Versions: []string{byRowLock, byHorizon, byLocks},
		build: func(s settings) Checked {
			return checked[AuthorityState, AuthorityAct]{title: s.title(), model: newAuthority(s).model()}
		},
	}
}

// Authority makes the variant of the fence's model that the options choose, with its
// types, for whoever replays the graph against the real code.
func Authority(o Options) (model.Model[AuthorityState, AuthorityAct], error) {
	s, err := authorityEntry().settle(o)
	if err != nil {
		return model.Model[AuthorityState, AuthorityAct]{}, err
	}
	return newAuthority(s).model(), nil
}

func newAuthority(s settings) *authority {
	return &authority{
		writers: s.workers, intents: s.demands, changes: uint8(s.attempts), faults: uint8(s.faults), way: s.version,
		lockA: s.has("lock-a") && s.version == byLocks, lockB: s.has("lock-b") && s.version != byHorizon,
		secondLook: s.has("second-look") && s.has("read-committed"), // an old snapshot looks twice at the same
		commitTail: s.has("commit-tail"), readCommitted: s.has("read-committed"), role: s.has("role"), epoch: s.has("epoch"),
		position: s.has("position-under-lock"), state: s.has("state-check"), changeID: s.has("change-id"),
		report: s.has("report"), ownReport: s.has("own-report"), unknown: s.has("unknown-blocks"), window: s.has("window"),
		deadline: s.has("deadline"), receipts: s.has("receipts"), digest: s.has("digest"),
	}
}

func (m *authority) model() model.Model[AuthorityState, AuthorityAct] {
	return model.Model[AuthorityState, AuthorityAct]{
		Name:       "authority",
		Initial:    AuthorityState{Fence: Fence{Epoch: 1}, Faults: m.faults},
		Next:       m.next,
		Label:      authorityLabel,
		Fault:      AuthorityAct.fault,
		Describe:   m.describe,
		Properties: m.properties(),
	}
}
