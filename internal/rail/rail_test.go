package rail

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestUUIDHasOneSpelling(t *testing.T) {
	t.Parallel()
	u := NewUUID()
	back, err := ParseUUID(strings.ToUpper(u.String()))
	if err != nil || back != u {
		t.Fatalf("%s came back as %s, %v", u, back, err)
	}
	for _, bad := range []string{
		"", "x", "{" + u.String() + "}", "urn:uuid:" + u.String(), strings.ReplaceAll(u.String(), "-", ""), u.String() + " ", "g" + u.String()[1:],
		strings.Replace(u.String(), "-", "_", 1),
	} {
		if _, err := ParseUUID(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestNewUUIDIsRandomVersionFour(t *testing.T) {
	t.Parallel()
	seen := map[UUID]bool{}
	for range 1000 {
		u := NewUUID()
		if u[6]>>4 != 4 || u[8]>>6 != 2 || seen[u] {
			t.Fatalf("%s", u)
		}
		seen[u] = true
	}
}

func TestScanAndValue(t *testing.T) {
	t.Parallel()
	want := NewUUID()
	for _, src := range []any{want.String(), [16]byte(want), []byte(want.String())} {
		var got UUID
		if err := got.Scan(src); err != nil || got != want {
			t.Errorf("%T: %s, %v", src, got, err)
		}
	}
	var none UUID
	if err := none.Scan(nil); err != nil || !none.IsZero() {
		t.Errorf("NULL: %s, %v", none, err)
	}
	if err := none.Scan(7); err == nil {
		t.Error("a number was read")
	}
	if v, err := none.Value(); v != nil || err != nil {
		t.Errorf("the nil UUID is stored as %v, %v", v, err)
	}
}

func TestKeyRoundTrip(t *testing.T) {
	t.Parallel()
	k := Key{Firm: NewUUID(), Matter: NewUUID()}
	if got, err := ParseKey(k.String()); err != nil || got != k {
		t.Errorf("%s: %v, %v", k, got, err)
	}
	for _, bad := range []string{"", k.Firm.String(), k.String() + "x", strings.Replace(k.String(), "/", "-", 1)} {
		if _, err := ParseKey(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestKeysAreOrderedByFirmThenMatter(t *testing.T) {
	t.Parallel()
	keys := []Key{{UUID{2}, UUID{1}}, {UUID{1}, UUID{2}}, {UUID{1}, UUID{1}}}
	slices.SortFunc(keys, Key.Compare)
	if want := []Key{{UUID{1}, UUID{1}}, {UUID{1}, UUID{2}}, {UUID{2}, UUID{1}}}; !slices.Equal(keys, want) {
		t.Errorf("%v", keys)
	}
}

// bucketVectors are shared with the SQL function ops.matter_bucket: see
// TestBucketIsTheSameInSQL of package outbox.
func TestBucketVectors(t *testing.T) {
	t.Parallel()
	for id, want := range BucketVectors() {
		u, err := ParseUUID(id)
		if err != nil {
			t.Fatal(err)
		}
		if got := Bucket(u); got != want {
			t.Errorf("%s: bucket %d, want %d", id, got, want)
		}
	}
}

func TestEventNames(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"matter.created", "a.b", "document_page.re_read", "a1.b2", strings.Repeat("a", 50) + "." + strings.Repeat("b", 49)} {
		if _, err := ParseEventName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "a", "a.", ".b", "A.b", "a.b\n", "a..b", "a.b.c", "a b.c", "a__b.c", "_a.b", "1.b", strings.Repeat("a", 50) + "." + strings.Repeat("b", 50)} {
		if _, err := ParseEventName(bad); !errors.Is(err, ErrEventName) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestPriorityWords(t *testing.T) {
	t.Parallel()
	for p := Interactive; p <= Bulk; p++ {
		text, err := json.Marshal(p)
		var back Priority
		if err != nil || json.Unmarshal(text, &back) != nil || back != p {
			t.Errorf("%d: %s, %v", p, text, err)
		}
	}
	if _, err := ParsePriority("urgent"); err == nil {
		t.Error("an unknown priority was read")
	}
	if got := fmt.Sprint(Priority(9)); got != "priority(9)" {
		t.Error(got)
	}
}
