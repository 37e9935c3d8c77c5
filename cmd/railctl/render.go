package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// outputSchema names the form of everything that -o json and -o yaml print. It
// changes when a field goes or changes its meaning, not when one is added.
const outputSchema = "railctl/1"

// envelope surrounds all machine-readable output.
type envelope struct {
	Schema string `json:"schema"`
	Kind   string `json:"kind"`
	Data   any    `json:"data"`
}

// view is an answer in every form it can be printed in.
type view struct {
	kind  string      // of the envelope
	data  any         // for -o json and -o yaml
	table func(*page) // for people
	names []string    // for -o name, one a line
}

// listView is a list as an answer; name is what -o name prints of one of it.
func listView[T any](kind string, items []T, name func(T) string, table func(*page)) view {
	names := make([]string, len(items))
	for i, x := range items {
		names[i] = name(x)
	}
	return view{kind: kind, data: list(items), names: names, table: table}
}

// show prints an answer on stdout in the chosen form.
func (a *app) show(v view) error {
	a.hush()
	switch a.format {
	case "json":
		return writeJSON(a.stdout, v)
	case "yaml":
		return writeYAML(a.stdout, v)
	case "name":
		for _, n := range v.names {
			if _, err := fmt.Fprintln(a.stdout, n); err != nil {
				return err
			}
		}
		return nil
	}
	p := newPage(a.stdout, a.now())
	p.wide = a.format == "wide"
	v.table(p)
	return p.flush()
}

func writeJSON(w io.Writer, v view) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(envelope{outputSchema, v.kind, v.data})
}

// writeYAML goes through JSON, so that both have the same fields in the same
// order: JSON is YAML in flow style.
func writeYAML(w io.Writer, v view) error {
	var b bytes.Buffer
	if err := writeJSON(&b, v); err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b.Bytes(), &doc); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	plainStyle(&doc)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return e.Close()
}

// plainStyle drops JSON's braces and quotes; the encoder puts quotes back where a
// text would be read as something else.
func plainStyle(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		plainStyle(c)
	}
}
