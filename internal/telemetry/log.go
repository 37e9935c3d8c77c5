package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"briefrail/internal/rail"
)

// Longest texts of a log line, in bytes. Error texts quote what others sent, so
// they are kept shorter.
const (
	maxErrText = 500
	maxText    = 2000
)

// errKey and stateKey are the fixed keys of an error and of its SQLSTATE.
const (
	errKey   = "err"
	stateKey = "sqlstate"
)

// NewLogger returns a logger for one program, and its level, which the caller may
// change while the program runs. Level is debug, info, warn or error (anything
// else is info); format is json, text, or auto: text when w is a terminal.
//
// Every line carries component. Texts are made valid UTF-8 and cut to a bounded
// length; an error under the key err adds its sqlstate when it has one.
func NewLogger(w io.Writer, level, format, component string) (*slog.Logger, *slog.LevelVar) {
	lv := new(slog.LevelVar)
	if err := lv.UnmarshalText([]byte(level)); err != nil {
		lv.Set(slog.LevelInfo)
	}
	opts := &slog.HandlerOptions{Level: lv}
	var h slog.Handler = slog.NewJSONHandler(w, opts)
	if format == "text" || (format != "json" && isTerminal(w)) {
		h = slog.NewTextHandler(w, opts)
	}
	return slog.New(guard{h}).With(slog.String("component", component)), lv
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Err returns the attributes of an error: its text under err and, when it comes
// from PostgreSQL, its code under sqlstate. A nil error adds nothing.
func Err(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	attrs := []slog.Attr{slog.String(errKey, cut(errText(err), maxErrText))}
	if state := sqlState(err); state != "" {
		attrs = append(attrs, slog.String(stateKey, state))
	}
	return slog.Attr{Value: slog.GroupValue(attrs...)} // no key: the group is inlined
}

// sqlState survives what errText survives.
func sqlState(err error) (state string) {
	defer func() {
		if recover() != nil {
			state = ""
		}
	}()
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return cut(coded.SQLState(), 5)
	}
	return ""
}

// errText survives an Error method that panics, as one on a nil pointer does.
func errText(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T whose text cannot be read", err)
		}
	}()
	return err.Error()
}

// cut makes s valid UTF-8 without NUL, of at most most bytes plus an ellipsis.
func cut(s string, most int) string {
	if len(s) > most {
		n := most
		for n > 0 && n > most-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// guard cleans what reaches the handler below it.
type guard struct{ next slog.Handler }

// Enabled implements slog.Handler.
func (g guard) Enabled(ctx context.Context, l slog.Level) bool { return g.next.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (g guard) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, cut(r.Message, maxText), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(cleanAttr(a)...)
		return true
	})
	clean.AddAttrs(traceAttrs(ctx, r)...)
	return g.next.Handle(ctx, clean)
}

// traceAttrs are trace_id and span_id of the context that a line is logged under, as
// far as it does not say them itself.
func traceAttrs(ctx context.Context, r slog.Record) (out []slog.Attr) {
	parent := strings.Split(rail.TraceOf(ctx).Parent, "-")
	if len(parent) != 4 {
		return nil
	}
	said := map[string]bool{}
	r.Attrs(func(a slog.Attr) bool { said[a.Key] = true; return true })
	for i, key := range []string{"trace_id", "span_id"} {
		if !said[key] {
			out = append(out, slog.String(key, parent[i+1]))
		}
	}
	return out
}

// WithAttrs implements slog.Handler.
func (g guard) WithAttrs(attrs []slog.Attr) slog.Handler {
	return guard{g.next.WithAttrs(cleanAttrs(attrs))}
}

// WithGroup implements slog.Handler.
func (g guard) WithGroup(name string) slog.Handler { return guard{g.next.WithGroup(name)} }

func cleanAttrs(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, 0, len(attrs)+1)
	for _, a := range attrs {
		out = append(out, cleanAttr(a)...)
	}
	return out
}

// cleanAttr returns the attribute in its clean form, and sqlstate beside an error
// that has one.
func cleanAttr(a slog.Attr) []slog.Attr {
	most := maxText
	if a.Key == errKey {
		most = maxErrText
	}
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return []slog.Attr{slog.String(a.Key, cut(v.String(), most))}
	case slog.KindDuration:
		return []slog.Attr{slog.String(a.Key, v.Duration().Round(time.Microsecond).String())}
	case slog.KindGroup:
		return []slog.Attr{{Key: a.Key, Value: slog.GroupValue(cleanAttrs(v.Group())...)}}
	case slog.KindAny:
		return cleanAny(a.Key, v, most)
	}
	return []slog.Attr{{Key: a.Key, Value: v}}
}

func cleanAny(key string, v slog.Value, most int) []slog.Attr {
	err, ok := v.Any().(error)
	if !ok {
		return []slog.Attr{{Key: key, Value: v}}
	}
	out := []slog.Attr{slog.String(key, cut(errText(err), min(most, maxErrText)))}
	if state := sqlState(err); state != "" && key == errKey {
		out = append(out, slog.String(stateKey, state))
	}
	return out
}
