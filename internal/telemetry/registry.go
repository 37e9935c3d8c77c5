package telemetry

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// other is the label value of whatever is in no closed set.
const other = "other"

// BuildInfo says what runs.
type BuildInfo struct {
	Version   string // "devel" when the build was given none
	Revision  string // commit, with +dirty when the tree was changed; "unknown" without
	GoVersion string
	Component string
}

// Version describes the running program. The version is what the linker was
// given, or "" to take the module's own.
func Version(version, component string) BuildInfo {
	b := BuildInfo{Version: version, Revision: linkedRevision, GoVersion: runtime.Version(), Component: component}
	info, ok := debug.ReadBuildInfo()
	if ok {
		b.Revision = revision(info)
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

// linkedRevision is constant: the linker sets it in builds that are stamped by hand
// and not by the go command.
var linkedRevision = "unknown"

func revision(info *debug.BuildInfo) string {
	rev, dirty := linkedRevision, ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	return rev + dirty
}

// NewRegistry returns the program's own registry with the collectors of the Go
// runtime and the process, and rail_build_info.
func NewRegistry(b BuildInfo) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rail_build_info", Help: "What runs; always 1.",
		ConstLabels: prometheus.Labels{
			"version": validLabel(b.Version), "revision": validLabel(b.Revision),
			"goversion": validLabel(b.GoVersion), "component": validLabel(b.Component),
		},
	})
	info.Set(1)
	reg.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// validLabel exists because client_golang panics on a label that is not UTF-8.
func validLabel(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// SafeLabel returns value if it is one of allowed, else "other". Every label
// value that does not come from a constant passes through it, which keeps the
// number of series constant.
func SafeLabel(value string, allowed ...string) string {
	if slices.Contains(allowed, value) {
		return value
	}
	return other
}
