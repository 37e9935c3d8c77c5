package config

import (
	"slices"
	"strings"
)

// environment is what may be ours of a process's environment: RAIL_ and OTEL_. A variable set to
// the empty text is left out: it counts as not set.
type environment map[string]string

func readEnv(environ []string) environment {
	env := environment{}
	for _, kv := range environ {
		name, value, ok := strings.Cut(kv, "=")
		if ok && value != "" && (strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, otelPrefix)) {
			env[name] = value
		}
	}
	return env
}

// strays reports variables with our prefix that no program of ours knows: a
// misspelt setting would otherwise be silently without effect. Values are not
// shown, as a misspelt name may hold a secret.
func (env environment) strays(known []string, ps *problems) {
	var names []string
	for name := range env {
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) && !foreign(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		ps.add(Problem{
			Key: name, Origin: "environment", Fault: "no program of ours knows this variable",
			Want: orElse(suggest(name, known), "remove it, or see the reference of settings"),
		})
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// foreign recognises variables that others set under our prefix: Kubernetes
// service links of a service whose name starts with "rail", and those of tests.
func foreign(name string) bool {
	return strings.HasPrefix(name, "RAIL_TEST_") ||
		strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_")
}
