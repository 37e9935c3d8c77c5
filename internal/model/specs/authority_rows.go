package specs

// Side is one of the two that may write a scope: the old writer, or the rail.
type Side uint8

// The two sides.
const (
	SideOld Side = iota
	SideNew
)

func (s Side) String() string { return [...]string{"old", "new"}[s] }

func (s Side) other() Side { return 1 - s }

// sideOf is the side of a writer's process.
func sideOf(who int) Side { return Side(who % 2) }

// Fence is a scope's row of ops.write_fences as far as it decides anything. Its
// methods are the transitions, each a pure function from a row to the next one; the
// explorer takes no others. The row's change is the latest change once that is past
// its plan.
type Fence struct {
	Epoch  uint8
	Writer Side
	State  FenceState
	Final  uint8 // final_sequence of the closing under way; 0 unless sealed
}

// FenceState is the state of a fence.
type FenceState uint8

// The states of a fence.
const (
	FenceOpen FenceState = iota
	FenceClosing
	FenceSealed
)

func (s FenceState) String() string { return [...]string{"open", "closing", "sealed"}[s] }

// Close keeps new writers out.
func (f Fence) Close() Fence {
	f.State, f.Final = FenceClosing, 0
	return f
}

// Seal keeps every writer out, at a position.
func (f Fence) Seal(final uint8) Fence {
	f.State, f.Final = FenceSealed, final
	return f
}

// Advance opens the fence to a side, under the next epoch.
func (f Fence) Advance(to Side) Fence {
	return Fence{Epoch: f.Epoch + 1, Writer: to}
}

// Abort opens it again to the same side under the same epoch.
func (f Fence) Abort() Fence {
	f.State, f.Final = FenceOpen, 0
	return f
}

// Change is the latest row of ops.write_fence_changes. Earlier ones have ended.
type Change struct {
	ID    uint8 // counted from 1; 0 before the first
	Phase Phase
	To    Side

	// Passed is the change of the latest report that passed, 0 for none: this one's,
	// or an earlier one's where such a report can still do harm.
	Passed uint8
}

// Phase is how far a change has come. One with a passing report of its own is still
// called sealed here.
type Phase uint8

// The phases in their order.
const (
	PhaseNone Phase = iota
	PhasePlanned
	PhaseClosing
	PhaseDrained
	PhaseSealed
	PhaseAdvanced
	PhaseAborted
)

func (p Phase) String() string {
	return [...]string{"none", "planned", "closing", "drained", "sealed", "advanced", "aborted"}[p]
}

// ended reports whether nothing is left to do for a change, or there is none.
func (p Phase) ended() bool { return p == PhaseNone || p >= PhaseAdvanced }

// under reports whether a change has closed its scope.
func (p Phase) under() bool { return p >= PhaseClosing && p <= PhaseSealed }

// fence is the state of the fence in a phase that is not over.
func (p Phase) fence() FenceState {
	switch p {
	case PhaseClosing, PhaseDrained:
		return FenceClosing
	case PhaseSealed:
		return FenceSealed
	default:
		return FenceOpen
	}
}

// verified reports whether this very closing has a report that passes.
func (c Change) verified() bool { return c.Passed == c.ID && c.ID != 0 }

// verb is what is to be done next for a change, as its row says it.
func (c Change) verb() ControllerPC {
	switch {
	case c.Phase == PhaseSealed && c.verified():
		return ControllerAdvances
	case c.Phase == PhasePlanned:
		return ControllerCloses
	case c.Phase == PhaseClosing:
		return ControllerDrains
	case c.Phase == PhaseDrained:
		return ControllerSeals
	case c.Phase == PhaseSealed:
		return ControllerImports
	default:
		return ControllerIdle
	}
}

// upTo are the writes up to a position.
func upTo(position uint8) Writes { return 1<<position - 1 }
