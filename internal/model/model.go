package model

import (
	"errors"
	"fmt"
)

// Model is a state machine: S a state, A an action, both small comparable
// structs. The zero value of the optional fields is usable.
type Model[S, A comparable] struct {
	Name    string // one word, for errors and reports
	Initial S

	// Next calls yield once for every step out of s, in an order that depends on s
	// alone. It is called more than once for the same state, and by several
	// goroutines where the search is told to; it should not allocate.
	Next func(s S, yield func(a A, to S))

	// Label says in words what the step does; called for traces and pictures only.
	Label func(from S, a A, to S) string

	// Fault reports whether the action is a fault rather than the system's own
	// step. Optional: without it no action is.
	Fault func(a A) bool

	// Describe gives a state as name and value pairs, in a fixed order, for people
	// to read. Optional: without it the struct is printed.
	Describe func(s S) []Field

	Properties []Property[S]
}

// Field is one variable of a state as people read it.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Kind says how a property judges the states that its predicate picks.
type Kind uint8

const (
	// Never is broken by a reachable state that the predicate picks.
	Never Kind = iota + 1
	// Reachable is broken when the predicate picks no reachable state.
	Reachable
	// Recoverable is broken by a reachable state from which no path leads to a
	// state that the predicate picks: a stuck state.
	Recoverable
)

func (k Kind) String() string {
	switch k {
	case Never:
		return "never"
	case Reachable:
		return "reachable"
	case Recoverable:
		return "recoverable"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// MarshalText gives the kind its word in JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Property is one thing to judge. Name says what should hold ("at most one frame
// per generation"); At picks the bad states of a Never, and the wanted ones of the
// other kinds.
type Property[S comparable] struct {
	Name string
	Kind Kind
	At   func(s S) bool
}

// validate refuses a model that could not be searched or judged.
func (m *Model[S, A]) validate() error {
	switch {
	case m.Name == "":
		return errors.New("model: a model without a name: set Name")
	case m.Next == nil || m.Label == nil:
		return fmt.Errorf("model %s: Next and Label are both needed", m.Name)
	}
	for i, p := range m.Properties {
		if p.Name == "" || p.At == nil || p.Kind < Never || p.Kind > Recoverable {
			return fmt.Errorf("model %s: property %d (%q): name, kind and predicate are all needed", m.Name, i, p.Name)
		}
	}
	return nil
}

// recoverable reports whether judging needs the transitions afterwards.
func (m *Model[S, A]) recoverable() bool {
	for _, p := range m.Properties {
		if p.Kind == Recoverable {
			return true
		}
	}
	return false
}

// isFault is Fault with its default.
func (m *Model[S, A]) isFault(a A) bool { return m.Fault != nil && m.Fault(a) }
