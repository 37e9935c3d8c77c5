package config

import (
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"briefrail/internal/rail"
)

// value returns the decoded value of a setting by walking the struct along the
// key, so that what is shown is what the program uses. It is nil for a key
// without a field, which a test rules out.
func (c *Config) value(key string) any {
	v := reflect.ValueOf(c.Settings)
	for part := range strings.SplitSeq(key, ".") {
		i := fieldOf(v.Type(), part)
		if i < 0 {
			return nil
		}
		v = v.Field(i)
	}
	return v.Interface()
}

func fieldOf(t reflect.Type, name string) int {
	if t.Kind() != reflect.Struct {
		return -1
	}
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("mapstructure") == name {
			return i
		}
	}
	return -1
}

// Show writes every setting that the program uses: key, value, and where the
// value comes from. Secrets are hidden; paths of secret files are shown.
func (c *Config) Show(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "SETTING\tVALUE\tORIGIN")
	for _, s := range c.Shown() {
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\n", s.Setting, s.Value, s.Origin)
	}
	return tw.Flush() // a tabwriter reports the errors of its writes here
}

// Shown is one setting in force, fit to be shown: one line each, without secrets.
type Shown struct {
	Setting string `json:"setting"`
	Value   string `json:"value"` // as a configuration file would hold it; "-" for none
	Origin  string `json:"origin"`
}

// Shown lists every setting that the program uses, as Show does.
func (c *Config) Shown() (list []Shown) {
	for _, s := range table() {
		if s.usedBy(c.component) {
			list = append(list, Shown{s.key, c.display(s), c.origin[s.key]})
		}
	}
	return list
}

// display writes a value in the form that its setting reads, and "" as a dash.
func (c *Config) display(s setting) string {
	text := format(c.value(s.key))
	switch {
	case s.kind.hasOff && text == s.kind.zero:
		return "off"
	case s.secret && s.key != "database.url":
		text = hide(text)
	case s.secret:
		text = redactDSN(text)
	case s.key == "builder.http.url", strings.HasPrefix(s.key, "tracing.") && strings.HasSuffix(s.key, "endpoint"):
		text = withoutQuery(text)
	}
	return orElse(text, "-")
}

// hide tells no more than whether there is something.
func hide(s string) string {
	if s == "" {
		return ""
	}
	return hidden
}

// withoutQuery hides a query, where some services take their key.
func withoutQuery(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return hidden
	}
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.String()
}

func format(v any) string {
	switch v := v.(type) {
	case time.Duration:
		return formatDuration(v)
	case int64:
		return formatSize(v)
	case bool:
		if v {
			return "on"
		}
		return "off"
	case []string:
		return formatList(v, strconv.Quote)
	case []rail.UUID:
		return formatList(v, rail.UUID.String)
	case []Rule:
		return formatList(v, Rule.String)
	}
	return oneLine(fmt.Sprint(v))
}

// oneLine keeps a value with line ends or tabs from breaking the table.
func oneLine(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
		return strconv.Quote(s)
	}
	return s
}

func formatList[T any](items []T, one func(T) string) string {
	words := make([]string, len(items))
	for i, v := range items {
		words[i] = one(v)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// String returns the rule as a configuration file would hold it.
func (u Rule) String() string {
	return fmt.Sprintf("{name: %s, priority: %s, settle: %s}", u.Name, u.Priority, formatDuration(u.Settle))
}
