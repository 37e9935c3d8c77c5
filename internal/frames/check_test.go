package frames

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const roomy = 1 << 20

func check(t *testing.T, raw string) (Checked, *InvalidError) {
	t.Helper()
	got, err := Check([]byte(raw), roomy)
	if err == nil {
		return got, nil
	}
	var bad *InvalidError
	if !errors.As(err, &bad) {
		t.Fatalf("Check(%.60q) = %T, want *InvalidError", raw, err)
	}
	return got, bad
}

// field report 7: a frame that cannot be stored exactly is refused by name.
func TestCheckRefusesByNameAndPlace(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth)
	for _, c := range []struct {
		raw    string
		reason Reason
		offset int64
	}{
		{"", ReasonNotObject, 0},
		{" \n", ReasonNotObject, 2},
		{"null", ReasonNotObject, 0},
		{"[]", ReasonNotObject, 0},
		{`"{}"`, ReasonNotObject, 0},
		{"<html>", ReasonNotObject, 0},
		{"\xEF\xBB\xBF{}", ReasonSyntax, 0},
		{"{}{}", ReasonTrailing, 2},
		{"{} x", ReasonTrailing, 3},
		{"{}\x00", ReasonTrailing, 2},
		{"{", ReasonSyntax, 1},
		{`{"a"`, ReasonSyntax, 4},
		{`{"a":`, ReasonSyntax, 5},
		{`{"a":1`, ReasonSyntax, 6},
		{`{"a":1,}`, ReasonSyntax, 7},
		{`{"a":1 "b":2}`, ReasonSyntax, 7},
		{`{a:1}`, ReasonSyntax, 1},
		{`{"a":[1,]}`, ReasonSyntax, 8},
		{`{"a":[1}`, ReasonSyntax, 7},
		{`{"a":tru}`, ReasonSyntax, 5},
		{`{"a":NaN}`, ReasonSyntax, 5},
		{`{"a":"x`, ReasonSyntax, 7},
		{"{\"a\":\"\n\"}", ReasonSyntax, 6},
		{"{\"a\":\"\x1f\"}", ReasonSyntax, 6},
		{`{"a":"\x"}`, ReasonSyntax, 6},
		{`{"a":"\u12G4"}`, ReasonSyntax, 6},
		{`{"a":"\u12`, ReasonSyntax, 6},
		{`{"a":"\`, ReasonSyntax, 6},
		{`{"a":01}`, ReasonSyntax, 7},
		{`{"a":-}`, ReasonSyntax, 6},
		{`{"a":+1}`, ReasonSyntax, 5},
		{`{"a":.5}`, ReasonSyntax, 5},
		{`{"a":1.}`, ReasonSyntax, 7},
		{`{"a":1e}`, ReasonSyntax, 7},
		{`{"a":1e+}`, ReasonSyntax, 8},
		{"{\"a\":\"\xff\"}", ReasonNotUTF8, 6},
		{"{\"a\":\"\xed\xa0\x80\"}", ReasonNotUTF8, 6},
		{"{\"a\":\"\xc0\x80\"}", ReasonNotUTF8, 6},
		{"{\"a\":\"\x00\"}", ReasonNUL, 6},
		{`{"a":"x\u0000"}`, ReasonNUL, 7},
		{`{"\u0000":1}`, ReasonNUL, 2},
		{`{"a":"\ud800"}`, ReasonSurrogate, 6},
		{`{"a":"\udc00"}`, ReasonSurrogate, 6},
		{`{"a":"\ud800\ud800\udc00"}`, ReasonSurrogate, 6},
		{`{"a":"\ud800A"}`, ReasonSurrogate, 6},
		{`{"a":1,"a":2}`, ReasonDuplicateKey, 7},
		{`{"a":1,"\u0061":2}`, ReasonDuplicateKey, 7},
		{`{"b":1,"a":1,"b":2,"a":2}`, ReasonDuplicateKey, 13},
		{`{"x":[{"😀":1,"\uD83D\ude00":2}]}`, ReasonDuplicateKey, 16},
		{`{"a":9007199254740993}`, ReasonNumber, 5},
		{`{"a":1152921504606846976}`, ReasonNumber, 5},
		{`{"a":0.1000000000000000055}`, ReasonNumber, 5},
		{`{"a":333333333.33333329}`, ReasonNumber, 5},
		{`{"a":1e400}`, ReasonNumber, 5},
		{`{"a":-1e400}`, ReasonNumber, 5},
		{`{"a":1e-400}`, ReasonNumber, 5},
		{`{"a":0e-20000}`, ReasonNumber, 5},
		{`{"a":0e99999999999999999999}`, ReasonNumber, 5},
		{`{"a":0.` + strings.Repeat("0", 800) + `}`, ReasonNumber, 5},
		{`{"a":` + strings.Repeat("1", 2000) + `}`, ReasonNumber, 5},
		{`{"a":` + deep + `}`, ReasonDepth, 5 * MaxDepth},
		{`{"a":` + strings.Repeat("[", 1<<16), ReasonDepth, 5 + MaxDepth - 1},
		{"{" + strings.Repeat(" ", roomy) + "}", ReasonTooLarge, roomy},
	} {
		_, bad := check(t, c.raw)
		want := &InvalidError{Reason: c.reason, Offset: c.offset}
		if diff := cmp.Diff(want, bad); diff != "" {
			t.Errorf("Check(%.60q) (-want +got):\n%s", c.raw, diff)
		}
	}
}

func TestCheckAccepts(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"{}", " \r\n\t{ } \n",
		`{"a":[],"b":{},"c":"","d":null,"e":true,"f":false,"":0}`,
		`{"a":-0,"b":-0.0,"c":0.1,"d":1.50,"e":9007199254740992,"f":9007199254740994}`,
		`{"a":1.7976931348623157e308,"b":5e-324,"c":1E5,"d":1e+5,"e":100000000000000000000000}`,
		`{"a":0e5,"b":0.000e2}`,
		`{"\ud83d\ude00":"\ud83d\ude00\/\b\f\n\r\t\"\\\u0001\u007f"}`,
		`{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}`,
		"{\"\u2028\":\"\uFFFD\uFFFE\uFFFF\u007f\"}",
		strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth),
	} {
		got, bad := check(t, raw)
		if bad != nil {
			t.Errorf("Check(%.60q) = %v", raw, bad)
		} else if got.Size != int64(len(raw)) {
			t.Errorf("Check(%.60q).Size = %d, want %d", raw, got.Size, len(raw))
		}
	}
}

func TestEveryReasonHasWords(t *testing.T) {
	t.Parallel()
	for _, r := range Reasons() {
		if r != "syntax" && r.phrase() == string(r) {
			t.Errorf("%s has no words of its own", r)
		}
	}
	got := (&InvalidError{Reason: ReasonDuplicateKey, Offset: 812}).Error()
	if want := "invalid_frame: duplicate key at byte 812"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	got = (&InvalidError{Reason: ReasonTooLarge, Offset: -1}).Error()
	if want := "invalid_frame: too large"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

func TestCheckNeverExceedsTheLimit(t *testing.T) {
	t.Parallel()
	if _, err := Check([]byte(`{"a":1}`), 7); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := Check([]byte(`{"a":1}`), 6); err == nil {
		t.Error("beyond the limit: accepted")
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	raw := []byte(` {"matter_id":"A","Matter_ID":"B","x":{"frame":1},"fr\u0061me": {"a":[1,"}\""]} ,"generation":12,"list":[ ]}`)
	got, err := Find(raw, "matter_id", "frame", "generation", "absent", "list")
	if err != nil {
		t.Fatal(err)
	}
	want := [][]byte{[]byte(`"A"`), []byte(`{"a":[1,"}\""]}`), []byte("12"), nil, []byte("[ ]")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Find (-want +got):\n%s", diff)
	}
	if at := bytes.Index(raw, got[1]); &raw[at] != &got[1][0] {
		t.Error("the found value is a copy")
	}
	if cap(got[1]) != len(got[1]) {
		t.Error("an append to the found value would write into the answer")
	}
}

// A bad byte inside the frame is the frame's fault, not that of the answer.
func TestFindLeavesTheFoundValueUnchecked(t *testing.T) {
	t.Parallel()
	got, err := Find([]byte("{\"frame\":{\"a\":\"\xff\",\"a\":1},\"x\":\"é\"}"), "frame")
	if err != nil || string(got[0]) != "{\"a\":\"\xff\",\"a\":1}" {
		t.Errorf("Find = %q, %v", got, err)
	}
}

func TestFindRefuses(t *testing.T) {
	t.Parallel()
	for raw, reason := range map[string]Reason{
		`{"frame":1,"frame":2}`:      ReasonDuplicateKey,
		`{"frame":1,"fr\u0061me":2}`: ReasonDuplicateKey,
		`{"frame":{"a":1}`:           ReasonSyntax,
		`{"frame":{"a":1`:            ReasonSyntax,
		`{"frame":"a`:                ReasonSyntax,
		`{"frame":["a\"`:             ReasonSyntax,
		`{"frame":`:                  ReasonSyntax,
		`{"frame":}`:                 ReasonSyntax,
		`{"frame":1 2}`:              ReasonSyntax,
		`{"x":{"a":1,"a":2}}`:        ReasonDuplicateKey,
		`{"frame":{}} {}`:            ReasonTrailing,
		`["frame"]`:                  ReasonNotObject,
		"{\"x\":\"\xff\"}":           ReasonNotUTF8,
		"{\"frame\":1,\"\xff\":1}":   ReasonNotUTF8,
	} {
		_, err := Find([]byte(raw), "frame")
		var bad *InvalidError
		if !errors.As(err, &bad) || bad.Reason != reason {
			t.Errorf("Find(%q) = %v, want %s", raw, err, reason)
		}
	}
}

// largeFrame builds a frame of about size bytes like a Brief: objects in a
// struct's order, quotes with escapes.
func largeFrame(size int) []byte {
	var b bytes.Buffer
	b.Grow(size + 300)
	b.WriteString(`{"schema":"brief/1","parties":[{"role":"plaintiff","name":"Ørsted Süd GmbH"}],"assertions":[`)
	for i := 0; b.Len() < size-2; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"a-%d","document":"d-%d","page":%d,"weight":0.%d,"quote":"the \"Lessee\" shall pay\n%s","spans":[{"to":9,"from":2}]}`,
			i, i%17, i%400, i%1000+1, strings.Repeat("within thirty days ", i%12))
	}
	b.WriteString("]}")
	return b.Bytes()
}
