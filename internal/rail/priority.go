package rail

import "fmt"

// Priority is the urgency of a demand; the smaller is the more urgent.
type Priority int16

// The urgencies, as stored in the ledger.
const (
	Interactive Priority = 0 // a person waits: skips settle
	Standard    Priority = 1
	Bulk        Priority = 2 // backfills: after everything else of the firm
)

// constant: the words of the configuration, by value
var priorityNames = [...]string{"interactive", "standard", "bulk"}

// String returns the configuration's word for p.
func (p Priority) String() string {
	if p < 0 || int(p) >= len(priorityNames) {
		return fmt.Sprintf("priority(%d)", int(p))
	}
	return priorityNames[p]
}

// ParsePriority reads the configuration's word.
func ParsePriority(s string) (Priority, error) {
	for i, n := range priorityNames {
		if s == n {
			return Priority(i), nil
		}
	}
	return 0, fmt.Errorf("%.40q is not a priority: use interactive, standard or bulk", s)
}

// MarshalText implements encoding.TextMarshaler.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Priority) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePriority(string(b))
	return err
}
