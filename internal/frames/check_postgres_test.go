package frames

import (
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"testing/quick"

	"github.com/jackc/pgx/v5"

	"briefrail/internal/pg/pgtest"
)

// field report 7, the other side: whatever Check accepts, jsonb stores, and gives
// back with the same digest.
func TestJSONBKeepsWhatCheckAccepts(t *testing.T) {
	t.Parallel()
	frames := []string{
		`{"a":0e5,"b":-0.0,"c":1e308,"d":5e-324,"e":1.7976931348623157e308,"f":2.2250738585072014e-308,"g":-5E-324}`,
		`{"a":0.` + strings.Repeat("0", maxScale) + `,"b":1.` + strings.Repeat("0", maxScale) + `}`,
		`{"a":0e-700,"b":0e2000,"c":-0e+2000,"d":1` + strings.Repeat("0", 308) + `}`,
		"{\"a\":1" + strings.Repeat("0", 300) + "." + strings.Repeat("0", maxScale) + "}",
		strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth),
		"{\"\":\"\",\"\uffff\":\"\u007f\u2028\",\"😀\":\"\\ud83d\\ude00\\b\\f\\/\"}",
		string(largeFrame(1 << 20)),
		string(manyMembers(1 << 18)),
	}
	r := rand.New(rand.NewSource(1)) //nolint:gosec // a fixed seed: a failure must come again
	for range 3000 {
		v, ok := quick.Value(reflect.TypeFor[document](), r)
		if !ok {
			t.Fatal("no document")
		}
		frames = append(frames, v.String())
	}
	pool := pgtest.Empty(t).Pool
	rows, err := pool.Query(t.Context(), `select f::jsonb::text from unnest($1::text[]) with ordinality as x(f, n) order by n`, frames)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for i, frame := range frames {
		before, err := Check([]byte(frame), 2*roomy)
		if err != nil {
			t.Fatalf("Check(%.200q): %v", frame, err)
		}
		after, err := Check([]byte(stored[i]), 2*roomy)
		if err != nil || after.Digest != before.Digest {
			t.Errorf("%.200q came back as %.200q: %v", frame, stored[i], err)
		}
	}
}
