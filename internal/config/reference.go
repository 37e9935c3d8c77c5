package config

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

const referenceHead = `# Configuration

<!-- Written by "railworker config reference". Change internal/config/table.go, not this file. -->

Every setting can be given by a flag, an environment variable or a file, and has a default; the first of
these that names it wins. A file is YAML or TOML, named by ` + "`--config`" + ` or ` + "`RAIL_CONFIG`" + `, and nests at the
dots: ` + "`lease.duration`" + ` is ` + "`duration`" + ` under ` + "`lease`" + `. All programs can share one file.

- A duration always has a unit: ` + "`500ms`, `15s`, `5m`, `2h`, `7d`" + `; only ` + "`0`" + ` needs none. So has a size: ` + "`200KiB`, `16MiB`" + `.
- An empty variable counts as not set.
- Tracing follows the variables of OpenTelemetry. They are judged only where they name a collector (one of the two
  endpoints) and do not turn tracing off (` + "`OTEL_TRACES_EXPORTER=none`, `OTEL_SDK_DISABLED=true`" + `); those named ` + "`OTEL_EXPORTER_OTLP_…`" + `
  may also be written ` + "`OTEL_EXPORTER_OTLP_TRACES_…`" + `, which wins. ` + "`OTEL_…_CLIENT_CERTIFICATE` and `_CLIENT_KEY`" + ` are refused, others ignored.
- A key of the file that is not below, and a ` + "`RAIL_…`" + ` variable that no program knows, is refused. Let through are the
  variables that Kubernetes adds for services (` + "`*_SERVICE_HOST`, `*_SERVICE_PORT*`, `*_PORT`, `*_PORT_*`" + `) and ` + "`RAIL_TEST_*`" + `.
- A list in a variable is written in flow form: ` + "`RAIL_BUILDER_EXEC_COMMAND='[\"/usr/bin/build\", \"--fast\"]'`" + `.
- Secrets come from files, which are read again whenever they are needed. The connection string may also be given
  directly, by variable or file. Neither has a flag.
- All mistakes are reported at once; the program then ends with exit code 2.
- ` + "`config show`" + ` prints the values in force and where each comes from; ` + "`config validate`" + ` only checks.

| Setting | Variable | Flag | Kind | Default | Bounds | Used by | Meaning |
|---|---|---|---|---|---|---|---|
`

// Reference writes the reference of all settings of all programs, as Markdown.
func Reference(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	for _, s := range table() {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s | %s | %s | %s |\n", s.key, s.env(), codeOf("--", s.flag()),
			s.kind.name, s.defaults(), s.kind.bounds, s.users(), strings.ReplaceAll(s.doc, "|", `\|`))
	}
	_, err := w.Write(b.Bytes())
	return err
}

func codeOf(prefix, s string) string {
	if s == "" {
		return "-"
	}
	return "`" + prefix + s + "`"
}

// defaults lists the default, and those of programs that differ.
func (s setting) defaults() string {
	out := codeOf("", s.initial)
	for _, c := range s.used {
		if v, ok := s.initialOf[c]; ok {
			out += fmt.Sprintf(", `%s` (%s)", v, c)
		}
	}
	return out
}

func (s setting) users() string {
	if len(s.used) == len(anyone()) {
		return "all"
	}
	names := make([]string, len(s.used))
	for i, c := range s.used {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
}
