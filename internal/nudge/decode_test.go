package nudge

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"briefrail/internal/rail"
)

func id(t testing.TB, s string) rail.UUID {
	t.Helper()
	u, err := rail.ParseUUID(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func sample(t testing.TB) Nudge {
	t.Helper()
	return Nudge{
		Event: id(t, "0b5c3f5e-6f0d-4c1e-9f57-1f2d3c4b5a69"), Firm: id(t, "11111111-2222-4333-8444-555555555555"),
		Matter: id(t, "66666666-7777-4888-9999-aaaaaaaaaaaa"), Name: "document.uploaded",
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", TraceState: "vendor=1",
	}
}

// envelope puts a detail into the envelope of EventBridge.
func envelope(detail string) string {
	return `{"version":"0","id":"17793124-05d4-b198-2fde-7ededc63b103","detail-type":"document.uploaded","source":"brief.ops",` +
		`"account":"111122223333","time":"2026-11-30T09:00:00Z","region":"eu-west-1","resources":[],"detail":` + detail + `}`
}

// sns puts a message into a notification of SNS.
func sns(message string) string {
	quoted, _ := json.Marshal(message) // a string always can be
	return `{"Type":"Notification","MessageId":"22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324","TopicArn":"arn:aws:sns:eu-west-1:123456789012:T",` +
		`"Subject":"x","Message":` + string(quoted) + `,"Timestamp":"2026-11-30T09:00:00.000Z","SignatureVersion":"1","Signature":"E=","UnsubscribeURL":"https://x"}`
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	bare := Nudge{Event: rail.NewUUID(), Firm: rail.NewUUID(), Name: "firm.created"}
	for _, want := range []Nudge{sample(t), bare} {
		body := string(want.Encode())
		if len(body) > 450 {
			t.Errorf("a nudge has %d bytes: %s", len(body), body)
		}
		if Size(want) < len(body)+len(want.Name)+len("brief.ops")+len(xray(want.TraceParent)) {
			t.Errorf("Size %d is below what is sent", Size(want))
		}
		around := body
		if want.Name == "document.uploaded" {
			around = envelope(body)
		}
		for _, b := range []string{body, "\n " + body + "\t\n", around, sns(body), sns(around)} {
			got, err := Decode([]byte(b))
			if err != nil {
				t.Errorf("Decode(%s): %v", b, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Decode(%s) (-want +got):\n%s", b, diff)
			}
		}
	}
}

// What a reader in another language relies on.
func TestEncodedShape(t *testing.T) {
	t.Parallel()
	n := sample(t)
	n.Matter, n.TraceState = rail.UUID{}, ""
	want := `{"v":1,"event_id":"0b5c3f5e-6f0d-4c1e-9f57-1f2d3c4b5a69","event_name":"document.uploaded","firm_id":"11111111-2222-4333-8444-555555555555",` +
		`"matter_id":null,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":""}`
	if diff := cmp.Diff(want, string(n.Encode())); diff != "" {
		t.Errorf("encoded (-want +got):\n%s", diff)
	}
}

// Tracing may never stop a fact, nor make it large.
func TestTraceThatIsNotFit(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{strings.Repeat("a", 513), "caf\u00e9", "a\nb", "\xff", "\x00"} {
		n := sample(t)
		n.TraceParent, n.TraceState = bad, bad
		got, err := Decode(n.Encode())
		if err != nil || got.TraceParent != "" || got.TraceState != "" {
			t.Errorf("trace %q: %+v, %v", bad, got, err)
		}
	}
}

// field report 14: the bodies that others took for the one envelope they knew. Each is
// a nudge by a rule of its own, or has a reason.
func TestFieldReport14EveryEnvelopeHasAVerdict(t *testing.T) {
	t.Parallel()
	good := string(sample(t).Encode())
	quoted, _ := json.Marshal(good) // a string always can be
	more := replaceOnce(t, good, `{"v":1`, `{"added_later":{"deep":[null]},"v":1`)
	const nudge Reason = ""
	for _, c := range []struct {
		name, body string
		want       Reason
	}{
		{"plain text", "hello", NotJSON},
		{"empty", "", Empty},
		{"null", "null", NotObject},
		{"a list", "[]", NotObject},
		{"the envelope of EventBridge", envelope(good), nudge},
		{"the raw detail", good, nudge},
		{"SNS around EventBridge", sns(envelope(good)), nudge},
		{"SNS around the raw detail", sns(good), nudge},
		{"a JSON string that holds JSON", string(quoted), NotObject},
		{"SNS around a JSON string that holds JSON", sns(string(quoted)), NotObject},
		{"EventBridge around a JSON string that holds JSON", envelope(string(quoted)), WrongType},
		{"unknown fields", more, nudge},
		{"unknown fields in EventBridge", replaceOnce(t, envelope(more), `{"version"`, `{"added_later":1,"version"`), nudge},
		{"missing detail", `{"version":"0","detail-type":"document.uploaded","source":"brief.ops"}`, MissingDetail},
		{"detail-type Matter.Created", replaceOnce(t, envelope(good), `"detail-type":"document.uploaded"`, `"detail-type":"Matter.Created"`), BadName},
	} {
		n, err := Decode([]byte(c.body))
		var fault *DecodeError
		switch {
		case c.want == nudge:
			if diff := cmp.Diff(sample(t), n); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", c.name, err, diff)
			}
		case !errors.As(err, &fault) || fault.Reason != c.want:
			t.Errorf("%s: %+v, %v; want %s", c.name, n, err, c.want)
		}
	}
}

// field report 14: every body has a verdict, and each kind of malformed one has its own
// reason.
func TestRefusals(t *testing.T) {
	t.Parallel()
	good := string(sample(t).Encode())
	set := func(old, new string) string { return replaceOnce(t, good, old, new) }
	double, _ := json.Marshal(good) // a string always can be
	cases := []struct {
		name, body string
		want       Reason
	}{
		{"no bytes", "", Empty},
		{"white space", " \n\t", Empty},
		{"plain text", "hello", NotJSON},
		{"cut short", good[:len(good)-1], NotJSON},
		{"a comma too many", set(`"tracestate":"vendor=1"}`, `"tracestate":"vendor=1",}`), NotJSON},
		{"null", "null", NotObject},
		{"list", "[]", NotObject},
		{"list of a nudge", "[" + good + "]", NotObject},
		{"number", "17", NotObject},
		{"true", "true", NotObject},
		{"string that holds JSON", string(double), NotObject},
		{"second value", good + good, Trailing},
		{"second closing", good + "}", Trailing},
		{"text behind", good + " x", Trailing},
		{"byte order mark", "\xef\xbb\xbf" + good, BOM},
		{"UTF-16", "\xff\xfe{\x00}\x00", NotUTF8},
		{"invalid byte", set("vendor", "ven\xffdor"), NotUTF8},
		{"NUL", set("vendor", "ven\x00dor"), NotUTF8},
		{"very large", set(`{"v"`, `{"x":"`+strings.Repeat("x", maxBody)+`","v"`), TooLarge},
		{"very deep", strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), TooDeep},
		{"deep in an unknown field", set(`{"v"`, `{"x":`+strings.Repeat("[", 33)+strings.Repeat("]", 33)+`,"v"`), TooDeep},
		{"empty object", "{}", UnknownShape},
		{"another's message", `{"Records":[{"eventSource":"aws:s3"}]}`, UnknownShape},
		{"duplicate key", set(`{"v":1`, `{"event_id":"0b5c3f5e-6f0d-4c1e-9f57-1f2d3c4b5a60","v":1`), DuplicateKey},
		{"duplicate key, escaped", set(`{"v":1`, `{"v":1,"\u0076":1`), DuplicateKey},
		{"duplicate unknown key", set(`{"v":1`, `{"x":1,"x":2,"v":1`), DuplicateKey},
		{"case variant beside the key", set(`{"v":1`, `{"Matter_ID":"0b5c3f5e-6f0d-4c1e-9f57-1f2d3c4b5a60","v":1`), CaseVariant},
		{"case variant instead of the key", set("firm_id", "Firm_Id"), CaseVariant},
		{"case variant by Unicode folding", set("tracestate", "trace\u017ftate"), CaseVariant},
		{"case variant of v", set(`"v"`, `"V"`), CaseVariant},
		{"no v", set(`"v":1,`, ``), UnknownShape},
		{"v 2", set(`"v":1`, `"v":2`), UnknownVersion},
		{"v -1", set(`"v":1`, `"v":-1`), UnknownVersion},
		{"v 1.0", set(`"v":1`, `"v":1.0`), UnknownVersion},
		{"v 1e0", set(`"v":1`, `"v":1e0`), UnknownVersion},
		{"v very large", set(`"v":1`, `"v":9007199254740993`), UnknownVersion},
		{"v string", set(`"v":1`, `"v":"1"`), WrongType},
		{"v null", set(`"v":1`, `"v":null`), WrongType},
		{"v true", set(`"v":1`, `"v":true`), WrongType},
		{"no event id", set(`"event_id":"0b5c3f5e-6f0d-4c1e-9f57-1f2d3c4b5a69",`, ``), MissingField},
		{"no firm", set(`"firm_id"`, `"firm"`), MissingField},
		{"no name", set(`"event_name"`, `"name"`), MissingField},
		{"event id is a number", set(`"0b5c3f5e-6f0d-4c1e-9f57-1f2d3c4b5a69"`, `17`), WrongType},
		{"event id is null", set(`"0b5c3f5e-6f0d-4c1e-9f57-1f2d3c4b5a69"`, `null`), WrongType},
		{"matter is a list", set(`"66666666-7777-4888-9999-aaaaaaaaaaaa"`, `[]`), WrongType},
		{"trace is a number", set(`"vendor=1"`, `1`), WrongType},
		{"upper-case id", set("0b5c3f5e", "0B5C3F5E"), BadID},
		{"id in braces", set("0b5c3f5e-6f0d-4c1e-9f57-1f2d3c4b5a69", "{0b5c3f5e-6f0d-4c1e-9f57-1f2d3c4b5a69}"), BadID},
		{"id without hyphens", set("0b5c3f5e-6f0d-4c1e-9f57-1f2d3c4b5a69", "0b5c3f5e6f0d4c1e9f571f2d3c4b5a69"), BadID},
		{"id as a URN", set("0b5c3f5e-", "urn:uuid:0b5c3f5e-"), BadID},
		{"nil event id", set("0b5c3f5e-6f0d-4c1e-9f57-1f2d3c4b5a69", "00000000-0000-0000-0000-000000000000"), BadID},
		{"nil matter", set("66666666-7777-4888-9999-aaaaaaaaaaaa", "00000000-0000-0000-0000-000000000000"), BadID},
		{"empty firm", set("11111111-2222-4333-8444-555555555555", ""), BadID},
		{"name in capitals", set("document.uploaded", "Document.Uploaded"), BadName},
		{"name with a newline", set("document.uploaded", `document.uploaded\n`), BadName},
		{"name of 129 characters", set("document.uploaded", "a."+strings.Repeat("b", 127)), BadName},
		{"event without detail", `{"detail-type":"document.uploaded","source":"brief.ops"}`, MissingDetail},
		{"event without detail-type", `{"detail":` + good + `}`, MissingField},
		{"detail is null", envelope("null"), WrongType},
		{"detail is a string that holds JSON", envelope(string(double)), WrongType},
		{"detail is a list", envelope("[]"), WrongType},
		{"detail is empty", envelope("{}"), UnknownShape},
		{"detail-type in capitals", strings.Replace(envelope(good), `"detail-type":"document.uploaded"`, `"detail-type":"Matter.Created"`, 1), BadName},
		{"detail-type is a number", strings.Replace(envelope(good), `"detail-type":"document.uploaded"`, `"detail-type":3`, 1), WrongType},
		{"detail-type of another fact", strings.Replace(envelope(good), `"detail-type":"document.uploaded"`, `"detail-type":"matter.created"`, 1), Disagrees},
		{"Detail beside detail", strings.Replace(envelope(good), `{"version"`, `{"Detail":{},"version"`, 1), CaseVariant},
		{"V in the detail", envelope(strings.Replace(good, `"v"`, `"V"`, 1)), CaseVariant},
		{"two details", strings.Replace(envelope(good), `{"version"`, `{"detail":{},"version"`, 1), DuplicateKey},
		{"two v in the detail", envelope(strings.Replace(good, `{"v"`, `{"v":1,"v"`, 1)), DuplicateKey},
		{"event in an event", envelope(envelope(good)), Nested},
		{"SNS in an event", envelope(sns(good)), Nested},
		{"SNS in SNS", sns(sns(good)), Nested},
		{"subscription to confirm", strings.Replace(sns(good), "Notification", "SubscriptionConfirmation", 1), NotNotified},
		{"SNS without Message", `{"Type":"Notification","MessageId":"x"}`, MissingMessage},
		{"SNS whose Message is an object", `{"Type":"Notification","Message":` + good + `}`, WrongType},
		{"SNS whose Type is a number", `{"Type":1,"Message":"x"}`, WrongType},
		{"SNS around text", sns("hello"), NotJSON},
		{"SNS around nothing", sns(""), Empty},
		{"SNS around a bad nudge", sns(set(`"v":1`, `"v":2`)), UnknownVersion},
		{"SNS with message beside Message", strings.Replace(sns(good), `{"Type"`, `{"message":"x","Type"`, 1), CaseVariant},
		{"sns in lower case", `{"type":"Notification","message":"x"}`, CaseVariant},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Decode([]byte(c.body))
			var fault *DecodeError
			if !errors.As(err, &fault) || fault.Reason != c.want {
				t.Fatalf("Decode(%.200q) = %+v, %v; want %s", c.body, got, err, c.want)
			}
			sound(t, []byte(c.body))
		})
	}
}

func replaceOnce(t *testing.T, s, old, new string) string {
	t.Helper()
	if !strings.Contains(s, old) {
		t.Fatalf("%q is not in %s", old, s)
	}
	return strings.Replace(s, old, new, 1)
}

// Unknown fields are ignored, wherever they stand and whatever is in them.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	want := sample(t)
	more := `{"deep":[{"v":2,"v":3}],"Event_Kind":null,"":1,"detail":{"x":1},"Type":7,"v":`
	body := strings.Replace(string(want.Encode()), `{"v":`, more, 1)
	event := strings.Replace(envelope(body), `{"version"`, `{"replay-name":"r","trace-header":"Root=1","version"`, 1)
	for _, b := range []string{body, event, sns(body), sns(event)} {
		got, err := Decode([]byte(b))
		if err != nil || got != want {
			t.Errorf("Decode(%s) = %+v, %v", b, got, err)
		}
	}
}

func TestDecodeErrorShowsNoContent(t *testing.T) {
	t.Parallel()
	secret := "Secret-Name 4711 \u00fcml\u00e4ut \x01"
	_, err := Decode([]byte(`{"x":"` + secret + `"}`))
	var fault *DecodeError
	if !errors.As(err, &fault) {
		t.Fatal(err)
	}
	if want := `{"a":"aaaaaa-aaaa 9999 ?aa?aa ?"}`; fault.Preview != want {
		t.Errorf("preview %q, want %q", fault.Preview, want)
	}
	if strings.Contains(err.Error(), "Secret") || len(fault.Hash) != 16 {
		t.Errorf("error %v, hash %q", err, fault.Hash)
	}
	_, again := Decode([]byte(`{"x":"` + secret + `"}`))
	if again.Error() != err.Error() {
		t.Errorf("two looks at one body: %v and %v", err, again)
	}
	if long := preview([]byte(strings.Repeat("\u00fc", 500))); len(long) != 80 {
		t.Errorf("preview of %d bytes", len(long))
	}
}

// sound checks what must hold for any body: a nudge in its one form, or a reason of the
// set.
func sound(t *testing.T, body []byte) {
	t.Helper()
	n, err := Decode(body)
	if err == nil {
		again, err := Decode(n.Encode())
		if err != nil || again != n {
			t.Fatalf("%q decodes to %+v, which does not survive itself: %+v, %v", body, n, again, err)
		}
		if n.Event.IsZero() || n.Firm.IsZero() || n.Name == "" {
			t.Fatalf("%q decodes to a nudge without its ids: %+v", body, n)
		}
		return
	}
	var fault *DecodeError
	if !errors.As(err, &fault) || !slices.Contains(Reasons(), fault.Reason) || n != (Nudge{}) {
		t.Fatalf("%q: %+v, %v", body, n, err)
	}
	if len(fault.Preview) > 80 || !utf8.ValidString(fault.Preview) || len(fault.Hash) != 16 {
		t.Fatalf("%q: preview %q, hash %q", body, fault.Preview, fault.Hash)
	}
}

// bodies are real messages of every known shape, and of shapes that are not ours.
func bodies(t testing.TB) [][]byte {
	t.Helper()
	good := string(sample(t).Encode())
	out := [][]byte{[]byte(good), []byte(envelope(good)), []byte(sns(good)), []byte(sns(envelope(good)))}
	files, err := filepath.Glob("testdata/envelopes/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no kept envelopes: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// field report 14: 200 and more mutations of real envelopes each get a verdict.
func TestMutations(t *testing.T) {
	t.Parallel()
	seeds := bodies(t)
	random := rand.New(rand.NewPCG(4, 14))
	verdicts := map[string]int{}
	for i := range 4000 {
		body := slices.Clone(seeds[i%len(seeds)])
		for range 1 + random.IntN(3) {
			body = mutate(random, body, seeds)
		}
		sound(t, body)
		_, err := Decode(body)
		var fault *DecodeError
		if errors.As(err, &fault) {
			verdicts[string(fault.Reason)]++
		} else {
			verdicts["nudge"]++
		}
	}
	if len(verdicts) < 8 || verdicts["nudge"] == 0 {
		t.Errorf("the mutations reach too little: %v", verdicts)
	}
}

// mutate changes a body as the world might: bytes, whole pieces, other keys' letters.
func mutate(random *rand.Rand, body []byte, seeds [][]byte) []byte {
	if len(body) == 0 {
		return []byte("{}")
	}
	at := random.IntN(len(body))
	switch random.IntN(9) {
	case 0:
		body[at] ^= byte(1 << random.IntN(8))
	case 1:
		return slices.Delete(body, at, min(len(body), at+1+random.IntN(20)))
	case 2:
		other := seeds[random.IntN(len(seeds))]
		return slices.Insert(body, at, other[:random.IntN(len(other))]...)
	case 3:
		return slices.Insert(body, at, []byte(`"{}[],:\ `)[random.IntN(9)])
	case 4:
		return append(body, body[:at]...)
	case 5:
		return []byte(strings.ToUpper(string(body[:at])) + string(body[at:]))
	case 6:
		quoted, _ := json.Marshal(string(body)) // a string always can be
		return quoted
	case 7:
		return []byte(fmt.Sprintf(`{"Type":"Notification","Message":%q}`, body))
	default:
		return []byte(strings.Replace(string(body), `"detail"`, `"v":1,"detail"`, 1))
	}
	return body
}

func FuzzDecode(f *testing.F) {
	for _, b := range bodies(f) {
		f.Add(b)
	}
	for _, s := range []string{"", "hello", "null", "[]", "{}", `""`, `{"v":1}`, `{"Type":"Notification","Message":"{}"}`, `{"detail-type":"a.b","detail":{"v":1}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(sound)
}
