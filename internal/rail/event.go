package rail

import (
	"errors"
	"fmt"
	"regexp"
)

// MaxEventName is the longest event name, in characters (all of them ASCII).
const MaxEventName = 100

// ErrEventName is wrapped by ParseEventName's errors.
var ErrEventName = errors.New("event name must be lower-case noun.verb")

var eventName = regexp.MustCompile(`\A[a-z][a-z0-9]*(_[a-z0-9]+)*\.[a-z][a-z0-9]*(_[a-z0-9]+)*\z`)

// EventName is the name of a fact: noun.verb in lower case, words joined by
// single underscores, at most MaxEventName characters. The database refuses any
// other with the same rule.
type EventName string

// ParseEventName checks s against the grammar.
func ParseEventName(s string) (EventName, error) {
	if len(s) > MaxEventName {
		return "", fmt.Errorf("%w: %d characters, at most %d", ErrEventName, len(s), MaxEventName)
	}
	if !eventName.MatchString(s) {
		return "", fmt.Errorf("%w, like document.uploaded: got %.60q", ErrEventName, s)
	}
	return EventName(s), nil
}

// Facts that the rail itself appends. They never trigger: a landing that caused a
// build would feed on itself for ever.
const (
	BriefLanded EventName = "brief.landed"
	BriefParked EventName = "brief.parked"
)

// OwnFact reports whether name is one that only the rail appends.
func OwnFact(name EventName) bool { return name == BriefLanded || name == BriefParked }
