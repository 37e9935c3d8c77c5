package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// maxDepth bounds how deep a file may nest.
const maxDepth = 16

// form is the shape of a raw value.
type form string

const (
	scalar form = "a single value"
	list   form = "a list"
	object form = "a section"
	null   form = "empty"
)

// raw is a value as it was written, before its setting says what it means. The
// text of a scalar is kept verbatim: 010 and 15 must not have become numbers.
type raw struct {
	form     form
	text     string
	unparsed bool // text of a variable or flag: a list is still inside it
	items    []raw
	fields   []field
	line     int // of a YAML file; 0 where it is not known
}

// field is one entry of an object, in the order of the file.
type field struct {
	name  string
	value raw
}

// readFile reads a YAML or TOML file into its raw form.
func readFile(path string) (raw, error) {
	f, err := os.Open(path)
	if err != nil {
		return raw{}, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return raw{}, err
	}
	if len(data) > maxFile {
		return raw{}, fmt.Errorf("is larger than %s", formatSize(maxFile))
	}
	switch filepath.Ext(path) {
	case ".yaml", ".yml":
		return parseYAML(data)
	case ".toml":
		return parseTOML(data)
	}
	return raw{}, errors.New("has an unknown type: name it .yaml, .yml or .toml")
}

// parseFlow reads the text of a variable as a list.
func parseFlow(s string) (raw, error) { return parseYAML([]byte(s)) }

func parseYAML(data []byte) (raw, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return raw{form: object}, nil
	case err != nil:
		return raw{}, fmt.Errorf("is not YAML: %w", err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return raw{}, errors.New("holds more than one YAML document")
	}
	if len(doc.Content) != 1 {
		return raw{form: object}, nil
	}
	return fromYAML(doc.Content[0], 0)
}

// fromYAML copies a node. Aliases are refused rather than followed: they can make
// a small file endless, and no setting needs them.
func fromYAML(n *yaml.Node, depth int) (raw, error) {
	r := raw{form: scalar, text: n.Value, line: n.Line}
	switch {
	case depth > maxDepth:
		return raw{}, fmt.Errorf("line %d: nested too deep", n.Line)
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return raw{}, fmt.Errorf("line %d: anchors and aliases are not supported", n.Line)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		r.form = null
	case n.Kind == yaml.SequenceNode:
		r.form = list
		for _, c := range n.Content {
			item, err := fromYAML(c, depth+1)
			if err != nil {
				return raw{}, err
			}
			r.items = append(r.items, item)
		}
	case n.Kind == yaml.MappingNode:
		r.form = object
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := fromYAML(n.Content[i+1], depth+1)
			if err != nil {
				return raw{}, err
			}
			v.line = n.Content[i].Line
			r.fields = append(r.fields, field{n.Content[i].Value, v})
		}
	}
	return r, nil
}

func parseTOML(data []byte) (raw, error) {
	var m map[string]any
	if err := toml.Unmarshal(data, &m); err != nil {
		return raw{}, fmt.Errorf("is not TOML: %w", err)
	}
	return fromTOML(m)
}

func fromTOML(v any) (raw, error) {
	switch v := v.(type) {
	case map[string]any:
		return fromTable(v)
	case []any:
		r := raw{form: list}
		for _, c := range v {
			item, err := fromTOML(c)
			if err != nil {
				return raw{}, err
			}
			r.items = append(r.items, item)
		}
		return r, nil
	case string:
		return raw{form: scalar, text: v}, nil
	case int64:
		return raw{form: scalar, text: strconv.FormatInt(v, 10)}, nil
	case bool:
		return raw{form: scalar, text: strconv.FormatBool(v)}, nil
	case float64:
		return raw{form: scalar, text: fmt.Sprintf("%g (a fraction)", v)}, nil
	}
	return raw{form: scalar, text: fmt.Sprintf("%v", v)}, nil
}

func fromTable(m map[string]any) (raw, error) {
	r := raw{form: object}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		v, err := fromTOML(m[name])
		if err != nil {
			return raw{}, err
		}
		r.fields = append(r.fields, field{name, v})
	}
	return r, nil
}
