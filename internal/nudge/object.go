package nudge

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	maxBody  = 64 << 10
	maxDepth = 32
)

// object is one JSON object, its members still raw. A key stands in it once.
type object map[string]json.RawMessage

// shape is what an object says it is, by which keys it has.
type shape int

const (
	shapeUnknown shape = iota
	shapeNudge
	shapeEvent
	shapeSNS
)

// shape is decided by the first of these rules that fits, so that no body has two.
func (o object) shape() shape {
	switch {
	case o.has("v"):
		return shapeNudge
	case o.has("detail"), o.has("detail-type"):
		return shapeEvent
	case o.has("Type"):
		return shapeSNS
	default:
		return shapeUnknown
	}
}

func (o object) has(key string) bool {
	_, ok := o[key]
	return ok
}

// variant reports whether a key equals one of the known ones in all but its letters'
// case. encoding/json would take it for the known one.
func (o object) variant(known ...string) bool {
	for key := range o {
		for _, k := range known {
			if key != k && strings.EqualFold(key, k) {
				return true
			}
		}
	}
	return false
}

// text reads a member that must be a string.
func (o object) text(key string) (string, Reason) {
	raw, ok := o[key]
	if !ok {
		return "", MissingField
	}
	s, ok := textOf(raw)
	if !ok {
		return "", WrongType
	}
	return s, ""
}

// parse reads a whole body that must be exactly one JSON object.
func parse(body []byte) (object, Reason) {
	switch {
	case len(body) > maxBody:
		return nil, TooLarge
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return nil, BOM
	case !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0:
		return nil, NotUTF8
	case len(bytes.TrimSpace(body)) == 0:
		return nil, Empty
	case tooDeep(body):
		return nil, TooDeep
	}
	raw, reason := single(body)
	if reason != "" {
		return nil, reason
	}
	return members(raw)
}

// single returns the one JSON value of a body.
func single(body []byte) (json.RawMessage, Reason) {
	dec := json.NewDecoder(bytes.NewReader(body))
	var raw json.RawMessage
	if dec.Decode(&raw) != nil {
		return nil, NotJSON
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, Trailing
	}
	return raw, ""
}

// members takes one JSON value apart that must be an object.
func members(raw json.RawMessage) (object, Reason) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, NotObject
	}
	o := make(object)
	for dec.More() {
		token, err := dec.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, NotJSON
		}
		if o.has(key) {
			return nil, DuplicateKey
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return nil, NotJSON
		}
		o[key] = value
	}
	return o, ""
}

// tooDeep counts brackets outside strings, before anything recursive sees the body.
func tooDeep(body []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}
