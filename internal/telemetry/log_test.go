package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/rail"
)

type stateError struct{ state string }

func (e *stateError) Error() string    { return "refused: " + e.state }
func (e *stateError) SQLState() string { return e.state }

// line logs once and returns the decoded line.
func line(t *testing.T, log func(*slog.Logger)) map[string]any {
	t.Helper()
	var b bytes.Buffer
	l, _ := NewLogger(&b, "debug", "json", "railworker")
	log(l)
	if !utf8.Valid(b.Bytes()) || bytes.Count(b.Bytes(), []byte("\n")) != 1 {
		t.Errorf("not one line of UTF-8: %q", b.Bytes())
	}
	var m map[string]any
	if err := json.Unmarshal(b.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "time")
	return m
}

func TestLogLine(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("land: %w", &stateError{"25006"})
	got := line(t, func(l *slog.Logger) {
		l.With(slog.String("firm_id", "f\xff")).Warn("fenced\x00", slog.Any("err", err), slog.Duration("took", 1500*time.Millisecond), slog.Int("attempt", 2),
			slog.Group("g", slog.String("text", "\xfe")))
	})
	want := map[string]any{
		"level": "WARN", "msg": "fenced\uFFFD", "component": "railworker", "firm_id": "f\uFFFD", "took": "1.5s",
		"err": "land: refused: 25006", "sqlstate": "25006", "attempt": 2.0, "g": map[string]any{"text": "\uFFFD"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestErr(t *testing.T) {
	t.Parallel()
	got := line(t, func(l *slog.Logger) { l.Error("x", Err(&stateError{"22021"})) })
	if got["err"] != "refused: 22021" || got["sqlstate"] != "22021" {
		t.Errorf("got %v", got)
	}
	for _, err := range []error{nil, errors.New("plain")} {
		if got := line(t, func(l *slog.Logger) { l.Error("x", Err(err)) }); got["sqlstate"] != nil || (err == nil) != (got["err"] == nil) {
			t.Errorf("%v: got %v", err, got)
		}
	}
	var broken *stateError
	if got := line(t, func(l *slog.Logger) { l.Error("x", slog.Any("error", broken)) }); !strings.Contains(got["error"].(string), "cannot be read") {
		t.Errorf("got %v", got)
	}
}

func TestErrorTextIsCut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("é", 4000), strings.Repeat("\xff", 4000), "x" + strings.Repeat("é", 4000)} {
		got := line(t, func(l *slog.Logger) { l.Error("x", slog.Any("err", errors.New(text)), slog.String("note", text)) })
		if n := len(got["err"].(string)); n > 3*(maxErrText+3) || n < maxErrText/200 {
			t.Errorf("err has %d bytes", n)
		}
		if strings.Contains(text, "é") && strings.Contains(got["err"].(string), "\uFFFD") {
			t.Error("cut in the middle of a rune")
		}
	}
}

func TestLevelChangesAtRunTime(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l, lv := NewLogger(&b, "error", "auto", "x")
	l.Info("hidden")
	lv.Set(slog.LevelDebug)
	l.Debug("seen")
	if s := b.String(); strings.Contains(s, "hidden") || !strings.Contains(s, `"msg":"seen"`) {
		t.Error(s)
	}
	b.Reset()
	l, _ = NewLogger(&b, "nonsense", "text", "x")
	l.Info("as text")
	if !strings.Contains(b.String(), `msg="as text"`) {
		t.Error(b.String())
	}
}

// A line that is logged under a trace says which, also where it names one itself.
func TestLinesCarryTheirTrace(t *testing.T) {
	t.Parallel()
	under := func(parent string, attrs ...any) map[string]any {
		return line(t, func(l *slog.Logger) {
			l.InfoContext(rail.WithTrace(t.Context(), rail.TraceContext{Parent: parent}), "x", attrs...)
		})
	}
	got := under("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if got["trace_id"] != "0af7651916cd43dd8448eb211c80319c" || got["span_id"] != "b7ad6b7169203331" {
		t.Errorf("got %v", got)
	}
	got = under("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", slog.String("trace_id", "its own"))
	if got["trace_id"] != "its own" || got["span_id"] != "b7ad6b7169203331" {
		t.Errorf("got %v", got)
	}
	for _, none := range []string{"", "nonsense"} {
		if got := under(none); got["trace_id"] != nil || got["span_id"] != nil {
			t.Errorf("%q: got %v", none, got)
		}
	}
}
