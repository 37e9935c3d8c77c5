package runs

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func TestReadAll(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 32 << 10, 32<<10 + 1, 100_000, 3 << 20} {
		for _, hint := range []int64{-1, int64(size), int64(size) / 2, 2 * int64(size)} {
			want := bytes.Repeat([]byte("abcdefg"), size/7+1)[:size]
			counted := 0
			got, err := readAll(iotest.HalfReader(bytes.NewReader(want)), hint, int64(size), func(n int) { counted += n })
			if err != nil || !bytes.Equal(got, want) || counted != size {
				t.Errorf("%d bytes announced as %d: got %d, counted %d, %v", size, hint, len(got), counted, err)
			}
			if size > 0 {
				_, err = readAll(bytes.NewReader(want), hint, int64(size)-1, func(int) {})
				if !errors.Is(err, errTooLarge) {
					t.Errorf("%d bytes announced as %d, one too many: %v", size, hint, err)
				}
			}
		}
	}
	cut := io.MultiReader(strings.NewReader("begin"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if got, err := readAll(cut, 100, 100, func(int) {}); string(got) != "begin" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut answer = %q, %v", got, err)
	}
}

// An announced answer is held once.
func TestReadAllHoldsAnnouncedBytesOnce(t *testing.T) {
	const size = 8 << 20
	src := bytes.Repeat([]byte("x"), size)
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = readAll(bytes.NewReader(src), size, size, func(int) {})
		}
	})
	if got := float64(result.AllocedBytesPerOp()) / size; got > 1.1 {
		t.Errorf("allocates %.2f of the answer's size", got)
	}
}

func TestTidy(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain é": "plain é", "a\x00b\nc\xffd": "a b c d", "": "",
	} {
		if got := tidy(in); got != want {
			t.Errorf("tidy(%q) = %q, want %q", in, got, want)
		}
	}
	if got := tidy(strings.Repeat("x", 199) + "é"); len(got) != 199 || !utf8.ValidString(got) {
		t.Errorf("a long text is cut inside a character: %q", got[190:])
	}
}

func TestEveryKindHasAMetricClass(t *testing.T) {
	t.Parallel()
	classes := []string{"http_4xx", "http_5xx", "timeout", "not_json", "mismatch", "too_large", "other"}
	for _, kind := range BuildKinds() {
		if got := metricClass(&BuildError{Kind: kind}); !slices.Contains(classes, got) {
			t.Errorf("%s counts as %s", kind, got)
		}
	}
}

func TestClassNames(t *testing.T) {
	t.Parallel()
	for class, want := range map[BuildClass]string{
		Transient: "transient", Permanent: "permanent", Unavailable: "unavailable", Mismatch: "mismatch", 9: "class(9)",
	} {
		if got := class.String(); got != want {
			t.Errorf("%d = %s, want %s", int(class), got, want)
		}
	}
}
