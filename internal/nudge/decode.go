package nudge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"briefrail/internal/rail"
)

// Reason says in one word of a closed set why a body is no nudge.
type Reason string

// The reasons. A body is judged from the outside in, and the first fault found is the
// one that is named.
const (
	Empty          Reason = "empty"           // no bytes, or white space only
	TooLarge       Reason = "too_large"       // more than 64 KiB: no envelope of ours comes near
	TooDeep        Reason = "too_deep"        // nested more than 32 times
	NotUTF8        Reason = "not_utf8"        // also U+0000 in the raw bytes
	BOM            Reason = "bom"             // a byte order mark first
	NotJSON        Reason = "not_json"        // plain text, or JSON cut short
	NotObject      Reason = "not_object"      // null, a list, a number, or a string, even one that holds JSON
	Trailing       Reason = "trailing"        // something after the first value
	DuplicateKey   Reason = "duplicate_key"   // one key twice: readers disagree on which wins
	CaseVariant    Reason = "case_variant"    // a known key in other letters: readers disagree on whether it counts
	UnknownShape   Reason = "unknown_shape"   // neither nudge nor an envelope that is known
	MissingDetail  Reason = "missing_detail"  // an EventBridge envelope without detail
	MissingMessage Reason = "missing_message" // an SNS notification without Message
	NotNotified    Reason = "not_notified"    // SNS of another Type, like a subscription to confirm
	Nested         Reason = "nested"          // an envelope where the rule has none, like SNS around SNS
	MissingField   Reason = "missing_field"   // a nudge without one of its ids or its name
	WrongType      Reason = "wrong_type"      // a known field of another JSON type
	UnknownVersion Reason = "unknown_version" // v is not 1
	BadID          Reason = "bad_id"          // not a lower-case canonical UUID, or the nil UUID
	BadName        Reason = "bad_name"        // event_name or detail-type is no noun.verb
	Disagrees      Reason = "disagrees"       // detail-type and event_name name two facts
)

// Reasons returns the closed set, for initialising metrics.
func Reasons() []Reason {
	return []Reason{
		Empty, TooLarge, TooDeep, NotUTF8, BOM, NotJSON, NotObject, Trailing, DuplicateKey, CaseVariant,
		UnknownShape, MissingDetail, MissingMessage, NotNotified, Nested, MissingField, WrongType,
		UnknownVersion, BadID, BadName, Disagrees,
	}
}

// DecodeError says why a body is no nudge. Preview is a short redacted look at it (its
// shape stays, its letters and digits do not) and Hash the first 16 hex digits of its
// SHA-256, so that two log lines about one body can be matched.
type DecodeError struct {
	Reason  Reason
	Preview string
	Hash    string
}

// Error names the reason and the hash, never the body.
func (e *DecodeError) Error() string {
	return "not a nudge: " + string(e.Reason) + " (body " + e.Hash + ")"
}

// Decode reads one message body: a bare nudge, an EventBridge envelope around one, or
// an SNS notification around either. The rule is explicit: a body with v is a nudge,
// one with detail or detail-type is EventBridge, one with Type is SNS, whose Message
// is a nudge or EventBridge. Unknown fields are ignored, so that AWS may add some;
// everything else that is not as written is refused. Its error is always a
// *DecodeError. Ids are as the message has them: the ledger knows better.
func Decode(body []byte) (Nudge, error) {
	n, reason := decode(body)
	if reason == "" {
		return n, nil
	}
	sum := sha256.Sum256(body)
	return Nudge{}, &DecodeError{Reason: reason, Preview: preview(body), Hash: hex.EncodeToString(sum[:8])}
}

// decode unwraps what SNS may stand around.
func decode(body []byte) (Nudge, Reason) {
	o, reason := parse(body)
	if reason != "" {
		return Nudge{}, reason
	}
	if o.shape() != shapeSNS {
		return unwrap(o)
	}
	message, reason := notification(o)
	if reason != "" {
		return Nudge{}, reason
	}
	if o, reason = parse([]byte(message)); reason != "" {
		return Nudge{}, reason
	}
	if o.shape() == shapeSNS {
		return Nudge{}, Nested
	}
	return unwrap(o)
}

// unwrap reads a bare nudge or an EventBridge envelope around one.
func unwrap(o object) (Nudge, Reason) {
	switch o.shape() {
	case shapeNudge:
		return read(o)
	case shapeEvent:
		return event(o)
	default:
		if o.variant("v", "detail", "detail-type", "Type", "Message") {
			return Nudge{}, CaseVariant
		}
		return Nudge{}, UnknownShape
	}
}

// notification returns the Message of an SNS notification.
// https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html
func notification(o object) (string, Reason) {
	if o.variant("Type", "Message") {
		return "", CaseVariant
	}
	kind, reason := o.text("Type")
	switch {
	case reason != "":
		return "", reason
	case kind != "Notification":
		return "", NotNotified
	}
	if !o.has("Message") {
		return "", MissingMessage
	}
	return o.text("Message")
}

// event reads an EventBridge envelope.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-events-structure.html
func event(o object) (Nudge, Reason) {
	if o.variant("detail", "detail-type") {
		return Nudge{}, CaseVariant
	}
	if !o.has("detail") {
		return Nudge{}, MissingDetail
	}
	kind, reason := o.text("detail-type")
	if reason != "" {
		return Nudge{}, reason
	}
	name, err := rail.ParseEventName(kind)
	if err != nil {
		return Nudge{}, BadName
	}
	inner, reason := members(o["detail"])
	if reason == NotObject {
		return Nudge{}, WrongType
	}
	if reason != "" {
		return Nudge{}, reason
	}
	if inner.shape() != shapeNudge {
		return Nudge{}, innerFault(inner)
	}
	n, reason := read(inner)
	if reason == "" && n.Name != name {
		return Nudge{}, Disagrees
	}
	return n, reason
}

// innerFault names what is wrong with a detail that is no nudge.
func innerFault(o object) Reason {
	switch {
	case o.variant("v"):
		return CaseVariant
	case o.shape() != shapeUnknown:
		return Nested
	default:
		return UnknownShape
	}
}

// read reads the nudge itself.
func read(o object) (n Nudge, reason Reason) {
	if o.variant("v", "event_id", "event_name", "firm_id", "matter_id", "traceparent", "tracestate") {
		return Nudge{}, CaseVariant
	}
	if reason := o.version(); reason != "" {
		return Nudge{}, reason
	}
	if n.Event, reason = o.id("event_id"); reason != "" {
		return Nudge{}, reason
	}
	if n.Firm, reason = o.id("firm_id"); reason != "" {
		return Nudge{}, reason
	}
	if o.has("matter_id") && string(o["matter_id"]) != "null" {
		if n.Matter, reason = o.id("matter_id"); reason != "" {
			return Nudge{}, reason
		}
	}
	if n.Name, reason = o.name("event_name"); reason != "" {
		return Nudge{}, reason
	}
	if n.TraceParent, reason = o.trace("traceparent"); reason != "" {
		return Nudge{}, reason
	}
	n.TraceState, reason = o.trace("tracestate")
	if reason != "" {
		return Nudge{}, reason
	}
	return n, ""
}

// version wants the number 1 in its one spelling.
func (o object) version() Reason {
	switch raw := string(o["v"]); {
	case raw == "1":
		return ""
	case strings.HasPrefix(raw, "-") || (raw[0] >= '0' && raw[0] <= '9'):
		return UnknownVersion
	default:
		return WrongType
	}
}

// id reads a UUID in its one spelling. The nil UUID names nothing.
func (o object) id(key string) (rail.UUID, Reason) {
	s, reason := o.text(key)
	if reason != "" {
		return rail.UUID{}, reason
	}
	id, err := rail.ParseUUID(s)
	if err != nil || id.IsZero() || id.String() != s {
		return rail.UUID{}, BadID
	}
	return id, ""
}

// name reads an event name.
func (o object) name(key string) (rail.EventName, Reason) {
	s, reason := o.text(key)
	if reason != "" {
		return "", reason
	}
	name, err := rail.ParseEventName(s)
	if err != nil {
		return "", BadName
	}
	return name, ""
}

// trace reads a trace field, which may be missing. One that is not fit for a header
// is dropped: tracing may never stop a fact.
func (o object) trace(key string) (string, Reason) {
	if !o.has(key) {
		return "", ""
	}
	s, reason := o.text(key)
	return traceText(s), reason
}

// preview masks the first 80 runes: letters and digits go, the shape stays. What is not
// printable ASCII becomes a question mark.
func preview(body []byte) string {
	var b strings.Builder
	for i := 0; len(body) > 0 && i < 80; i++ {
		r, size := utf8.DecodeRune(body)
		body = body[size:]
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			b.WriteByte('a')
		case r >= '0' && r <= '9':
			b.WriteByte('9')
		case r >= 0x20 && r <= 0x7e:
			b.WriteRune(r)
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}

// textOf reads a JSON string.
func textOf(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	return s, json.Unmarshal(raw, &s) == nil
}
