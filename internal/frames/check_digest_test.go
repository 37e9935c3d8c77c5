package frames

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf16"
)

// digestOf checks raw and returns its digest.
func digestOf(t *testing.T, raw string) [32]byte {
	t.Helper()
	got, err := Check([]byte(raw), 1<<24)
	if err != nil {
		t.Fatalf("Check(%.80q): %v", raw, err)
	}
	return got.Digest
}

// The examples of RFC 8785, sections 3.2.2 and 3.2.3. The first number of the
// first one is 333333333.33333329 there: Check refuses that spelling, as its
// canonical form is another decimal number.
func TestDigestOfPublishedExamples(t *testing.T) {
	t.Parallel()
	for raw, canonical := range map[string]string{
		`{
  "numbers": [333333333.3333333, 1E30, 4.50,
              2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`: `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		`{
  "\u20ac": "Euro Sign",
  "\r": "Carriage Return",
  "\ufb33": "Hebrew Letter Dalet With Dagesh",
  "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face",
  "\u0080": "Control",
  "\u00f6": "Latin Small Letter O With Diaeresis"
}`: "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\"," +
			"\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
	} {
		if digestOf(t, raw) != sha256.Sum256([]byte(canonical)) {
			t.Errorf("digest of %q is not that of %q", raw, canonical)
		}
	}
}

// The samples of RFC 8785, appendix B.
func TestNumbersOfPublishedSamples(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		for _, format := range []byte("efg") {
			literal := strconv.FormatFloat(math.Float64frombits(bits), format, -1, 64)
			d, ok := parseDecimal([]byte(literal))
			if got := string(appendNumber(nil, d)); !ok || got != want {
				t.Errorf("%016x as %s: got %s, want %s", bits, literal, got, want)
			}
			if !exact([]byte(literal)) {
				t.Errorf("%s is refused", literal)
			}
		}
	}
}

func TestEqualValuesHaveOneDigest(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{`{"a":1}`, `{"a":1.0}`, `{"a":10e-1}`, `{"a":0.01E2}`, `{ "\u0061" : 1 }`},
		{`{"a":0}`, `{"a":-0}`, `{"a":0.00}`, `{"a":-0e7}`},
		{`{"a":[1,{"c":2,"b":3}]}`, `{"a":[1,{"b":3,"c":2}]}`},
		{`{"a":"é"}`, `{"a":"\u00e9"}`, `{"a":"\u00E9"}`},
	} {
		for _, raw := range same[1:] {
			if digestOf(t, raw) != digestOf(t, same[0]) {
				t.Errorf("%s and %s differ", raw, same[0])
			}
		}
	}
	if digestOf(t, `{"a":"é"}`) == digestOf(t, `{"a":"e\u0301"}`) {
		t.Error("two spellings of é in Unicode are two texts")
	}
}

// twin is the canonical form made the plain way: decode, sort, print.
func twin(t *testing.T, raw []byte) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("twin cannot read %q: %v", raw, err)
	}
	return appendTwin(nil, v)
}

func appendTwin(out []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		out = append(out, '{')
		for i, k := range keys {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendTwin(out, k), ':')
			out = appendTwin(out, v[k])
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for i, e := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendTwin(out, e)
		}
		return append(out, ']')
	case float64:
		if v == 0 {
			return append(out, '0') // without its sign
		}
	case string:
		return appendTwinString(out, v)
	}
	text, _ := json.Marshal(v)
	return append(out, text...)
}

func appendTwinString(out []byte, s string) []byte {
	out = append(out, '"')
	for _, r := range s {
		if i := strings.IndexRune("\b\t\n\f\r\"\\", r); i >= 0 {
			out = append(out, '\\', `btnfr"\`[i])
		} else if r < 0x20 {
			out = append(out, `\u00`...)
			out = append(out, "01"[r>>4], "0123456789abcdef"[r&15])
		} else {
			out = append(out, string(r)...)
		}
	}
	return append(out, '"')
}

func TestDigestMatchesThePlainWay(t *testing.T) {
	t.Parallel()
	same := func(d document) bool {
		got, err := Check([]byte(d), 2*roomy)
		if err != nil {
			t.Logf("Check(%.200q): %v", d, err)
			return false
		}
		return got.Digest == sha256.Sum256(twin(t, []byte(d)))
	}
	if err := quick.Check(same, &quick.Config{MaxCount: 5000}); err != nil {
		t.Error(err)
	}
	if large := largeFrame(1 << 20); !same(document(large)) {
		t.Error("a frame with large arrays differs")
	}
}

// What Check accepts by the shortest text is what survives ParseFloat and
// FormatFloat, for decimals of every length.
func TestExactIsTheRoundTrip(t *testing.T) {
	t.Parallel()
	survives := func(mantissa uint64, digits, exp int8) bool {
		text := strconv.FormatUint(mantissa, 10)
		text = text[:1+abs(digits)%len(text)] + "e" + strconv.Itoa(int(exp)*3)
		f, err := strconv.ParseFloat(text, 64)
		back, _ := parseDecimal([]byte(strconv.FormatFloat(f, 'e', -1, 64)))
		d, short := parseDecimal([]byte(text))
		want := err == nil && short && d == back
		return exact([]byte(text)) == want
	}
	if err := quick.Check(survives, &quick.Config{MaxCount: 20000}); err != nil {
		t.Error(err)
	}
}

func abs(n int8) int {
	return max(int(n), -int(n))
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1,"b":[1.5e3,"\ud83d\ude00"]}`, `{"b":1,"a":{"d":null,"c":true}}`, `{"a":"\u0000"}`,
		`{"a":1,"\u0061":2}`, `{"a":9007199254740993}`, `{"a":-0}`, "{\"a\":\"\xff\"}", `{"a":[[[[]]]]}x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _ = Find(raw, "a", "frame")
		got, err := Check(raw, roomy)
		if err != nil {
			return
		}
		canonical := twin(t, raw)
		if got.Digest != sha256.Sum256(canonical) {
			t.Fatalf("digest of %q is not that of %q", raw, canonical)
		}
		if again, err := Check(canonical, roomy); err != nil || again.Digest != got.Digest {
			t.Fatalf("the canonical form %q of %q: %v", canonical, raw, err)
		}
	})
}

// A frame of the largest size does not multiply itself: raw included, less than
// twice its size. Everything allocated counts, whether it is freed or not.
func TestCheckHoldsNoCopy(t *testing.T) {
	raw := map[string][]byte{
		"brief":        largeFrame(16 << 20),
		"many members": manyMembers(16 << 20),
	}
	for name, frame := range raw {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		if _, err := Check(frame, 17<<20); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		extra := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(frame))
		t.Logf("%s: allocates %.3f of the frame's size", name, extra)
		if limit := map[string]float64{"brief": 0.2, "many members": 1.1}[name]; extra > limit {
			t.Errorf("%s: allocates %.2f of the frame's size, want at most %.2f", name, extra, limit)
		}
	}
}

// manyMembers is the worst frame for memory: one object of the shortest members,
// in the wrong order.
func manyMembers(size int) []byte {
	var b bytes.Buffer
	b.Grow(size + 30)
	b.WriteByte('{')
	for i := 1 << 30; b.Len() < size; i-- {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + strconv.FormatInt(int64(i), 36) + `":0`)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func BenchmarkCheck(b *testing.B) {
	nested := bytes.Repeat([]byte(`{"b":0,"a":[`), MaxDepth/2-1)
	nested = append(append(nested, bytes.Repeat([]byte("[],"), 4<<20)...), "0"...)
	nested = append(nested, bytes.Repeat([]byte("]}"), MaxDepth/2-1)...)
	for name, raw := range map[string][]byte{
		"brief 100KB": largeFrame(100 << 10), "brief 16MB": largeFrame(16 << 20),
		"members 16MB": manyMembers(16 << 20), "nested 12MB": nested,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Check(raw, 1<<25); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
