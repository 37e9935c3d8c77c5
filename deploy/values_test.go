package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// schema is what values.schema.json uses of JSON Schema. Another word in it is refused
// when it is read, since it would be checked by nobody here.
type schema struct {
	Schema      string            `json:"$schema"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Type        string            `json:"type"`
	Properties  map[string]schema `json:"properties"`
	Additional  *bool             `json:"additionalProperties"`
	Required    []string          `json:"required"`
	Enum        []string          `json:"enum"`
	Pattern     string            `json:"pattern"`
	MinLength   int               `json:"minLength"`
	Minimum     *float64          `json:"minimum"`
	Maximum     *float64          `json:"maximum"`
}

// faults are what is wrong with a value, each with where.
func (s schema) faults(at string, value any) (all []string) {
	add := func(format string, args ...any) { all = append(all, at+": "+fmt.Sprintf(format, args...)) }
	switch v := value.(type) {
	case map[string]any:
		all = append(all, s.faultsOfObject(at, v)...)
	case string:
		if len(v) < s.MinLength || !regexp.MustCompile(s.Pattern).MatchString(v) || (s.Enum != nil && !slices.Contains(s.Enum, v)) {
			add("%q", v)
		}
	case float64:
		if (s.Minimum != nil && v < *s.Minimum) || (s.Maximum != nil && v > *s.Maximum) {
			add("%v is out of bounds", v)
		}
	}
	if s.Type != "" && s.Type != typeOf(value) {
		add("is %s, want %s", typeOf(value), s.Type)
	}
	return all
}

func (s schema) faultsOfObject(at string, v map[string]any) (all []string) {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			all = append(all, at+"."+name+": is missing")
		}
	}
	for name, inner := range v {
		p, ok := s.Properties[name]
		switch {
		case ok:
			all = append(all, p.faults(at+"."+name, inner)...)
		case s.Additional != nil && !*s.Additional:
			all = append(all, at+"."+name+": is not known")
		}
	}
	return all
}

func typeOf(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	}
	return "null"
}

func valuesSchema(t *testing.T) (s schema) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(read(t, filepath.Join(chart, "values.schema.json"))))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		t.Fatalf("values.schema.json: %v", err)
	}
	return s
}

// values are a YAML file as JSON has it.
func values(t *testing.T, file string) (v map[string]any) {
	t.Helper()
	var raw any
	parse(t, file, yaml.Unmarshal, &raw)
	text, err := json.Marshal(raw)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return v
}

// merged lays values over others, as Helm does.
func merged(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	for name, value := range over {
		inner, ok := value.(map[string]any)
		if old, both := out[name].(map[string]any); ok && both {
			value = merged(old, inner)
		}
		out[name] = value
	}
	return out
}

func TestValuesFitTheirSchema(t *testing.T) {
	t.Parallel()
	s, defaults := valuesSchema(t), values(t, filepath.Join(chart, "values.yaml"))
	sets := map[string]map[string]any{"values.yaml": defaults}
	for _, name := range helmCases() {
		sets[name] = merged(defaults, values(t, valuesFile(name)))
	}
	for name, set := range sets {
		for _, fault := range s.faults("", set) {
			t.Errorf("%s%s", name, fault)
		}
	}
	broken := merged(defaults, map[string]any{"relay": map[string]any{"replicas": 3.0}, "worker": map[string]any{"replicas": "two", "stopGraceSeconds": 600.0}})
	if got := s.faults("", broken); len(got) != 3 {
		t.Errorf("three faults, found %q", got)
	}
	// what the schema knows has a default, so that values.yaml shows all there is
	for name, p := range s.Properties {
		if _, ok := defaults[name]; !ok && name != "global" {
			t.Errorf("values.yaml does not show %s", name)
		}
		for inner := range p.Properties {
			if section, _ := defaults[name].(map[string]any); section[inner] == nil && name != "config" && name != "global" {
				t.Errorf("values.yaml does not show %s.%s", name, inner)
			}
		}
	}
}

// ofTheChart are settings that the chart makes from values of its own, or that this
// version of the programs refuses.
var ofTheChart = regexp.MustCompile(`^(admin\..*|api\..*|console|worker\.name|worker\.stop_grace|relay\.timeout|database\.url|tracing\.headers|.*_file)$`)

// The chart takes every setting there is, so that a misspelt one is refused before a pod
// fails over it.
func TestSchemaKnowsEverySetting(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, key := range known(t) {
		if !ofTheChart.MatchString(key) {
			want = append(want, key)
		}
	}
	var walk func(prefix string, s schema)
	walk = func(prefix string, s schema) {
		for name, p := range s.Properties {
			if p.Properties == nil {
				got = append(got, prefix+name)
			}
			walk(prefix+name+".", p)
		}
	}
	walk("", valuesSchema(t).Properties["config"])
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values.schema.json, config (-settings +schema):\n%s", diff)
	}
}
