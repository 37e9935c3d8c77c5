package config

import (
	"slices"
	"strings"
)

// envPrefix opens the name of every variable of ours.
const envPrefix = "RAIL_"

// configEnv and configFlag name the configuration file itself. They are no
// settings: a file cannot name the file.
const (
	configEnv  = "RAIL_CONFIG"
	configFlag = "config"
)

// setting is one row of the table.
type setting struct {
	key     string
	kind    kind
	initial string // the default, written as an operator would write it
	// initialOf overrides the default for one program.
	initialOf map[Component]string
	used      []Component
	// variables are the names that a standard has for it, in place of one of ours;
	// where several are set, the last of them wins.
	variables []string
	secret    bool // never shown, never a flag
	doc       string
}

// env returns the name of the variable that sets s.
func (s setting) env() string { return s.envs()[0] }

// envs returns the names of all variables that set s.
func (s setting) envs() []string {
	if len(s.variables) > 0 {
		return s.variables
	}
	return []string{envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.key))}
}

// flag returns the name of the flag that sets s, or "" where none may: a secret
// on a command line is readable by everybody, and lists do not fit one.
func (s setting) flag() string {
	if s.secret || s.kind.list {
		return ""
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.key)
}

// initialFor returns the default text of s for program c.
func (s setting) initialFor(c Component) string {
	if v, ok := s.initialOf[c]; ok {
		return v
	}
	return s.initial
}

func (s setting) usedBy(c Component) bool { return slices.Contains(s.used, c) }
