package nudge

// State is a finding in one word; the words are those of railctl doctor.
type State string

// The states. Unknown says that it could not be looked at, which is not well.
const (
	OK      State = "ok"
	Warn    State = "warn"
	Fail    State = "fail"
	Unknown State = "unknown"
)

// Finding is one thing that a Preflight looked at. Check is of a closed set (bus,
// rule, target, target_dead_letters, queue, queue_policy, redrive, dead_letters).
// Advice says what to do where something is wrong.
type Finding struct {
	Check    string `json:"check"`
	State    State  `json:"state"`
	Resource string `json:"resource"`
	Text     string `json:"text"`
	Advice   string `json:"advice,omitempty"`
}
