package nudge

import (
	"encoding/json"

	"briefrail/internal/rail"
)

// version is the only v that this package writes and reads.
const version = 1

// Limits of one call that hold whatever is configured.
const (
	// MaxEntries is the most entries that one call of either sink takes.
	MaxEntries = 10
	// MaxBytes is the most bytes that one call may carry when nothing is configured:
	// below the 256 KiB that emulators and older endpoints still hold to.
	MaxBytes = 200 << 10
	// maxSource is the longest event source that is allowed here.
	maxSource = 256
	// maxTrace bounds each of the two trace fields, so that a producer's header
	// cannot make a nudge large. W3C Trace Context asks carriers for 512 at least.
	maxTrace = 512
)

// Nudge says that a fact exists. Matter is the nil UUID for a fact without one. The
// trace fields are W3C Trace Context headers, or empty. It carries ids and never
// content.
type Nudge struct {
	Event, Firm, Matter     rail.UUID
	Name                    rail.EventName
	TraceParent, TraceState string
}

// wire is the nudge as JSON: every field always there, so a reader needs no rule for
// absence.
type wire struct {
	V           int            `json:"v"`
	Event       rail.UUID      `json:"event_id"`
	Name        rail.EventName `json:"event_name"`
	Firm        rail.UUID      `json:"firm_id"`
	Matter      *rail.UUID     `json:"matter_id"`
	TraceParent string         `json:"traceparent"`
	TraceState  string         `json:"tracestate"`
}

// Encode returns the nudge as one JSON object of a few hundred bytes. A trace field
// that is longer than 512 bytes or not printable ASCII is left out: tracing may never
// stop a fact.
func (n Nudge) Encode() []byte {
	w := wire{V: version, Event: n.Event, Name: n.Name, Firm: n.Firm, TraceParent: traceText(n.TraceParent), TraceState: traceText(n.TraceState)}
	if !n.Matter.IsZero() {
		w.Matter = &n.Matter
	}
	// Marshal fails for none of these types: UUIDs, integers and strings.
	body, _ := json.Marshal(w)
	return body
}

// traceText returns s where it is fit for a header, otherwise nothing.
func traceText(s string) string {
	if len(s) > maxTrace {
		return ""
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return ""
		}
	}
	return s
}

// Size returns an upper bound, in UTF-8 bytes, of what the nudge counts for in a call
// of either sink: the body, and for EventBridge also source, detail type and trace
// header. Batches are cut by it.
func Size(n Nudge) int {
	return len(n.Encode()) + len(n.Name) + len(n.TraceParent) + maxSource
}
