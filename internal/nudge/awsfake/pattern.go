package awsfake

import (
	"encoding/json"
	"reflect"
	"strings"
)

// matches reports whether an event pattern takes an event: every field of the pattern
// must be met by one of its values. Values are compared exactly; of the filters the
// fake knows prefix, suffix, exists, anything-but and equals-ignore-case. An unknown
// one matches nothing.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-patterns.html
func matches(pattern string, event []byte) bool {
	var p, e map[string]any
	return json.Unmarshal([]byte(pattern), &p) == nil && json.Unmarshal(event, &e) == nil && meets(p, e)
}

func meets(pattern, event map[string]any) bool {
	for key, want := range pattern {
		value, there := event[key]
		switch w := want.(type) {
		case map[string]any:
			inner, ok := value.(map[string]any)
			if !ok || !meets(w, inner) {
				return false
			}
		case []any:
			if !anyMeets(w, value, there) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// anyMeets reports whether one of the values wanted is met. A list in the event is met
// by any of its members.
func anyMeets(wanted []any, value any, there bool) bool {
	values, isList := value.([]any)
	if !isList {
		values = []any{value}
	}
	for _, w := range wanted {
		for _, v := range values {
			if oneMeets(w, v, there) {
				return true
			}
		}
	}
	return false
}

func oneMeets(want, value any, there bool) bool {
	filter, ok := want.(map[string]any)
	if !ok {
		return there && reflect.DeepEqual(want, value)
	}
	text, isText := value.(string)
	for name, arg := range filter {
		argText, _ := arg.(string) // a filter on text with an argument that is none matches nothing
		switch name {
		case "exists":
			return arg == there
		case "prefix":
			return isText && argText != "" && strings.HasPrefix(text, argText)
		case "suffix":
			return isText && argText != "" && strings.HasSuffix(text, argText)
		case "equals-ignore-case":
			return isText && strings.EqualFold(text, argText)
		case "anything-but":
			list, isList := arg.([]any)
			if !isList {
				list = []any{arg}
			}
			return there && !anyMeets(list, value, there)
		}
	}
	return false
}

// pick returns the part of an event that an InputPath names: $ or dotted names of it.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html (InputPath)
func pick(event []byte, path string) (json.RawMessage, bool) {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok {
		return nil, false
	}
	part := json.RawMessage(event)
	for _, name := range strings.FieldsFunc(rest, func(r rune) bool { return r == '.' }) {
		var o map[string]json.RawMessage
		if json.Unmarshal(part, &o) != nil || o[name] == nil {
			return json.RawMessage("null"), true
		}
		part = o[name]
	}
	return part, true
}
