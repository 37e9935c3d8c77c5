package config

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid is wrapped by every error of Load; programs exit with code 2 on it.
var ErrInvalid = errors.New("configuration is not valid")

// Problem is one mistake in the configuration. Value is "" where it is or may be
// a secret, or where the key itself is the mistake.
type Problem struct {
	Key    string // setting, variable or section
	Origin string // default, file path and line, variable or flag
	Value  string
	Fault  string // what is wrong
	Want   string // what to write instead
}

// Error returns the problem on one line.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)", p.Key, p.Origin)
	b.WriteString(": ")
	if p.Value != "" {
		fmt.Fprintf(&b, "%.80q ", p.Value)
	}
	b.WriteString(p.Fault)
	if p.Want != "" {
		b.WriteString("; " + p.Want)
	}
	return b.String()
}

// problems collects mistakes so that all are told at once.
type problems struct{ all []error }

func (ps *problems) add(p Problem) { ps.all = append(ps.all, &p) }

// err returns nil without problems, else one error that wraps ErrInvalid and
// every Problem.
func (ps *problems) err() error {
	if len(ps.all) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n%w", ErrInvalid, errors.Join(ps.all...))
}
