package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"briefrail/internal/rail"
)

var deadline = time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)

func request() Request {
	return Request{
		Key: rail.Key{Firm: uuid(1), Matter: uuid(2)}, Token: rail.Token{Generation: 7, Run: uuid(3)},
		Attempt: 2, RetryOf: uuid(4), Deadline: deadline,
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", TraceState: "a=b",
	}
}

// answering is the answer's members that the echo needs, and more.
func answering(more string) string {
	return fmt.Sprintf(`{"firm_id":%q,"matter_id":%q,"generation":7,"schema_version":"brief/1","builder_version":"b-9"%s}`,
		uuid(1), uuid(2), more)
}

func reply(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{contentType}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// outcome is what the table tests look at.
type outcome struct {
	Class  BuildClass
	Kind   string
	Metric string
}

func outcomeOf(t *testing.T, err error) outcome {
	t.Helper()
	var bad *BuildError
	if !errors.As(err, &bad) {
		t.Fatalf("Build error = %v (%T), want *BuildError", err, err)
	}
	return outcome{bad.Class, bad.Kind, metricClass(bad)}
}

func TestHTTPBuild(t *testing.T) {
	t.Parallel()
	var got map[string]any
	var header http.Header
	reg := prometheus.NewRegistry()
	b := serving(t, HTTPOptions{Token: func() (string, error) { return "s3cret\n", nil }, Registerer: reg},
		func(w http.ResponseWriter, r *http.Request) {
			header = r.Header.Clone()
			_ = json.NewDecoder(r.Body).Decode(&got)
			reply(200, "application/json; charset=utf-8",
				answering(`,"frame": {"a":1} ,"usage":{"model_calls":3,"tokens":900,"cost_usd":"0.42"},"extra":{}`))(w, r)
		})
	frame, usage, err := b.Build(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Frame{JSON: []byte(`{"a":1}`), SchemaVersion: "brief/1", BuilderVersion: "b-9"}, frame); diff != "" {
		t.Errorf("frame (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Usage{ModelCalls: 3, Tokens: 900, CostUSD: "0.42"}, usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"firm_id": uuid(1).String(), "matter_id": uuid(2).String(), "generation": 7.0, "run_id": uuid(3).String(),
		"attempt": 2.0, "retry_of": uuid(4).String(), "deadline": "2024-03-01T12:00:00Z",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	for name, value := range map[string]string{
		"Idempotency-Key": uuid(3).String(), "Authorization": "Bearer s3cret", "Accept": "application/json",
		"Content-Type": "application/json", "Traceparent": request().TraceParent, "Tracestate": "a=b",
	} {
		if header.Get(name) != value {
			t.Errorf("header %s = %q, want %q", name, header.Get(name), value)
		}
	}
	if n := testutil.ToFloat64(b.metrics.requests.WithLabelValues("ok")); n != 1 {
		t.Errorf("counted %v calls as ok, want 1", n)
	}
}

func TestHTTPFirstAttemptHasNoRetryOf(t *testing.T) {
	t.Parallel()
	r := request()
	r.RetryOf = rail.UUID{}
	body, err := requestJSON(r)
	if err != nil || !bytes.Contains(body, []byte(`"retry_of":null`)) {
		t.Errorf("request = %s, %v", body, err)
	}
}

// field report 16: an answer is checked before anything of it is used.
func TestHTTPRefusesWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	const js = "application/json"
	page := "<!DOCTYPE html><p>please log in"
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want outcome
	}{
		"200 text/html":           {reply(200, "text/html; charset=utf-8", page), outcome{Unavailable, KindHTML, "not_json"}},
		"200 json type with html": {reply(200, js, " \n"+page), outcome{Unavailable, KindHTML, "not_json"}},
		"200 bom then html":       {reply(200, js, "\xEF\xBB\xBF"+page), outcome{Unavailable, KindHTML, "not_json"}},
		"200 error inside":        {reply(200, js, `{"error":{"message":"overloaded"}}`), outcome{Transient, KindErrorBody, "other"}},
		"200 error and echo":      {reply(200, js, answering(`,"error":"overloaded"`)), outcome{Transient, KindErrorBody, "other"}},
		"200 empty":               {reply(200, js, ""), outcome{Transient, KindEmpty, "not_json"}},
		"200 blank":               {reply(200, js, " \n"), outcome{Transient, KindEmpty, "not_json"}},
		"204":                     {reply(204, js, ""), outcome{Transient, KindEmpty, "not_json"}},
		"202":                     {reply(202, js, answering(`,"frame":{}`)), outcome{Transient, KindBadAnswer, "other"}},
		"302 to a login":          {http.RedirectHandler("http://login.test/", http.StatusFound).ServeHTTP, outcome{Unavailable, KindRedirect, "other"}},
		"307":                     {http.RedirectHandler("/build", http.StatusTemporaryRedirect).ServeHTTP, outcome{Unavailable, KindRedirect, "other"}},
		"200 text/plain":          {reply(200, "text/plain", answering(`,"frame":{}`)), outcome{Transient, KindNotJSON, "not_json"}},
		"200 no content type":     {reply(200, "", answering(`,"frame":{}`)), outcome{Transient, KindNotJSON, "not_json"}},
		"200 hello":               {reply(200, js, "hello"), outcome{Transient, KindNotJSON, "not_json"}},
		"200 null":                {reply(200, js, "null"), outcome{Transient, KindNotJSON, "not_json"}},
		"200 bom":                 {reply(200, js, "\xEF\xBB\xBF"+answering(`,"frame":{}`)), outcome{Transient, KindNotJSON, "not_json"}},
		"200 two answers":         {reply(200, js, answering(`,"frame":{}`)+"{}"), outcome{Transient, KindNotJSON, "not_json"}},
		"200 two matters":         {reply(200, js, answering(`,"frame":{},"matter_id":"x"`)), outcome{Transient, KindNotJSON, "not_json"}},
		"200 json cut":            {reply(200, js, answering(`,"frame":{"a":1`)[:150]), outcome{Transient, KindNotJSON, "not_json"}},
		"200 no echo":             {reply(200, js, `{"frame":{}}`), outcome{Transient, KindBadAnswer, "other"}},
		"200 no frame":            {reply(200, js, answering("")), outcome{Permanent, KindBadAnswer, "other"}},
		"200 null frame":          {reply(200, js, answering(`,"frame":null`)), outcome{Permanent, KindBadAnswer, "other"}},
		"200 version a number": {
			reply(200, js, strings.Replace(answering(`,"frame":{}`), `"b-9"`, "9", 1)),
			outcome{Permanent, KindBadAnswer, "other"},
		},
		"200 version with NUL": {
			reply(200, js, strings.Replace(answering(`,"frame":{}`), "b-9", `b\u00079`, 1)),
			outcome{Permanent, KindBadAnswer, "other"},
		},
		"200 other matter": {
			reply(200, js, strings.Replace(answering(`,"frame":{}`), uuid(2).String(), uuid(9).String(), 1)),
			outcome{Mismatch, KindMismatch, "mismatch"},
		},
		"200 other firm": {
			reply(200, js, strings.Replace(answering(`,"frame":{}`), uuid(1).String(), uuid(9).String(), 1)),
			outcome{Mismatch, KindMismatch, "mismatch"},
		},
		"200 other generation": {
			reply(200, js, strings.Replace(answering(`,"frame":{}`), ":7,", ":8,", 1)),
			outcome{Mismatch, KindMismatch, "mismatch"},
		},
		"200 generation a text": {
			reply(200, js, strings.Replace(answering(`,"frame":{}`), ":7,", `:"7",`, 1)),
			outcome{Mismatch, KindMismatch, "mismatch"},
		},
		"200 too large": {
			reply(200, js, answering(`,"frame":{"a":"`+strings.Repeat("x", 1<<20)+`"}`)),
			outcome{Permanent, KindTooLarge, "too_large"},
		},
		"200 far too large": {reply(200, js, strings.Repeat("x", 2<<20)), outcome{Permanent, KindTooLarge, "too_large"}},
		"200 far too large, announced": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(1<<40))
			reply(200, js, "{")(w, r)
		}, outcome{Permanent, KindTooLarge, "too_large"}},
		"200 cut in the middle": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10000")
			reply(200, js, answering(`,"frame":{"a":1`))(w, r)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, outcome{Transient, KindTransport, "other"}},
		"200 chunks cut in the middle": {func(w http.ResponseWriter, r *http.Request) {
			reply(200, js, answering(`,"frame":{}`))(w, r)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, outcome{Transient, KindTransport, "other"}},
		"closed before the answer": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			outcome{Transient, KindTransport, "other"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			frame, _, err := serving(t, HTTPOptions{}, c.h).Build(t.Context(), request())
			if diff := cmp.Diff(c.want, outcomeOf(t, err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if frame.JSON != nil {
				t.Errorf("a frame came with the error: %q", frame.JSON)
			}
		})
	}
}

// A name in another case is another name: `{"matter_id":A,"Matter_ID":B}` is A.
func TestHTTPMatchesNamesExactly(t *testing.T) {
	t.Parallel()
	h := reply(200, "application/json", answering(`,"Matter_ID":"x","Frame":{"b":2},"frame":{"a":1}`))
	frame, _, err := serving(t, HTTPOptions{}, h).Build(t.Context(), request())
	if err != nil || string(frame.JSON) != `{"a":1}` {
		t.Errorf("Build = %q, %v", frame.JSON, err)
	}
}

func TestHTTPStatusClasses(t *testing.T) {
	t.Parallel()
	want := map[BuildClass][]int{
		Transient:   {408, 425, 429, 500, 502, 503, 504, 599},
		Unavailable: {300, 301, 302, 303, 304, 307, 308, 401, 403, 404},
		Permanent:   {400, 402, 405, 409, 410, 413, 415, 422, 451},
	}
	for class, statuses := range want {
		for _, status := range statuses {
			if got, kind := classify(status, false); got != class {
				t.Errorf("%d is %s (%s), want %s", status, got, kind, class)
			}
		}
	}
	for status, class := range map[int]BuildClass{400: Unavailable, 413: Unavailable, 500: Transient, 429: Transient} {
		if got, kind := classify(status, true); got != class {
			t.Errorf("%d as a page is %s (%s), want %s", status, got, kind, class)
		}
	}
}

// field report 7: what a builder says is kept as bytes, and blanked of our token.
func TestHTTPKeepsAPreview(t *testing.T) {
	t.Parallel()
	said := "\x00\xff" + strings.Repeat("x", PreviewBytes-6) + "tok-en and more"
	o := HTTPOptions{Token: func() (string, error) { return "tok-en", nil }}
	_, _, err := serving(t, o, reply(422, "text/plain", said)).Build(t.Context(), request())
	var bad *BuildError
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	if len(bad.Preview) > PreviewBytes || !bytes.HasPrefix(bad.Preview, []byte("\x00\xffx")) || bytes.Contains(bad.Preview, []byte("tok")) {
		t.Errorf("preview = %q", bad.Preview)
	}
	if len(bad.PreviewHash) != 64 {
		t.Errorf("hash = %q", bad.PreviewHash)
	}
	if want := "build: http_4xx: the builder answered 422 Unprocessable Entity"; err.Error() != want {
		t.Errorf("error = %q, want %q", err, want)
	}
}

func TestHTTPUsageOfARefusal(t *testing.T) {
	t.Parallel()
	h := reply(422, "application/json", `{"error":"x","usage":{"model_calls":2,"tokens":"many","cost_usd":"1.50"}}`)
	_, usage, err := serving(t, HTTPOptions{}, h).Build(t.Context(), request())
	if err == nil || usage != (Usage{}) {
		t.Errorf("usage = %+v, %v: an unreadable one is unknown", usage, err)
	}
	h = reply(503, "application/json", `{"usage":{"model_calls":2,"tokens":-1,"cost_usd":"1e5"}}`)
	_, usage, _ = serving(t, HTTPOptions{}, h).Build(t.Context(), request())
	if usage != (Usage{ModelCalls: 2}) {
		t.Errorf("usage = %+v, want two calls and the rest unknown", usage)
	}
}

func TestHTTPRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"7", "", 7 * time.Second},
		{" 0 ", "", 0},
		{"-5", "", 0},
		{"soon", "", 0},
		{"99999999999999999999", "", 0},
		{"86400", "", MaxRetryAfter},
		{"Fri, 01 Mar 2024 12:01:00 GMT", "", time.Minute},
		{"Fri, 01 Mar 2024 11:00:00 GMT", "", 0},
		{"Fri, 01 Mar 2030 12:00:00 GMT", "", MaxRetryAfter},
		{"Fri, 01 Mar 2024 09:00:30 GMT", "Fri, 01 Mar 2024 09:00:00 GMT", 30 * time.Second},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.after)
		h.Set("Date", c.date)
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("Retry-After %q (Date %q) = %s, want %s", c.after, c.date, got, c.want)
		}
	}
	_, _, err := serving(t, HTTPOptions{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "9")
		reply(429, "application/json", "{}")(w, r)
	}).Build(t.Context(), request())
	var bad *BuildError
	if !errors.As(err, &bad) || bad.RetryAfter != 9*time.Second || bad.Kind != KindRateLimited {
		t.Errorf("429 = %+v", bad)
	}
}

func TestHTTPWithoutService(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	b, err := NewHTTP(HTTPOptions{URL: "http://" + l.Addr().String() + "/?key=s3cret", Timeout: time.Minute, MaxFrameBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = b.Build(t.Context(), request())
	if diff := cmp.Diff(outcome{Transient, KindTransport, "other"}, outcomeOf(t, err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error = %q", err)
	}
}

func TestHTTPTokenTrouble(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]func() (string, error){
		"error": func() (string, error) { return "", errors.New("no such file") },
		"empty": func() (string, error) { return " \n", nil },
		"lines": func() (string, error) { return "a\nb", nil },
	} {
		_, _, err := serving(t, HTTPOptions{Token: token}, reply(200, "", "")).Build(t.Context(), request())
		if diff := cmp.Diff(outcome{Unavailable, KindAuth, "http_4xx"}, outcomeOf(t, err)); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestNewHTTPRefuses(t *testing.T) {
	t.Parallel()
	good := HTTPOptions{URL: "https://b.test/x", Timeout: 1, MaxFrameBytes: 1}
	if _, err := NewHTTP(good); err != nil {
		t.Fatal(err)
	}
	for _, u := range []string{"", "b.test", "ftp://b.test", "http://", "http://u:p@b.test", "http://b.test/#x", "http://[::1"} {
		o := good
		o.URL = u
		if _, err := NewHTTP(o); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("NewHTTP(%q) = %v", u, err)
		}
	}
	o := good
	o.Timeout = 0
	if _, err := NewHTTP(o); err == nil {
		t.Error("a builder without a timeout is accepted")
	}
}

// Two builders of one process share the metrics.
func TestBuildersShareTheRegistry(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	o := HTTPOptions{URL: "https://b.test/x", Timeout: 1, MaxFrameBytes: 1, Registerer: reg}
	a, err := NewHTTP(o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewExec(ExecOptions{Command: []string{"true"}, Timeout: 1, MaxFrameBytes: 1, Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	if a.metrics.requests != b.metrics.requests {
		t.Error("two counters of one name")
	}
	if n := testutil.CollectAndCount(a.metrics.requests); n != 8 {
		t.Errorf("%d series from the start, want 8", n)
	}
}
