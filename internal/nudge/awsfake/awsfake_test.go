package awsfake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// do makes one call as the wire has it and returns status and answer.
func do(t *testing.T, s *Server, target string, in any) (int, map[string]any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://fake.test/", strings.NewReader(string(body)))
	r.Header.Set("X-Amz-Target", target)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var out map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%s answered %q: %v", target, w.Body, err)
	}
	return w.Code, out
}

// ok wants the call to be taken.
func ok(t *testing.T, s *Server, target string, in any) map[string]any {
	t.Helper()
	code, out := do(t, s, target, in)
	if code != http.StatusOK {
		t.Fatalf("%s %v: %d %v", target, in, code, out)
	}
	return out
}

type in map[string]any

const queueURL = "http://fake.test/000000000000/q"

func withQueue(t *testing.T, opts Options, attrs map[string]string) *Server {
	t.Helper()
	s := New(opts)
	ok(t, s, "AmazonSQS.CreateQueue", in{"QueueName": "q", "Attributes": attrs})
	return s
}

// take receives and returns the bodies.
func take(t *testing.T, s *Server, more in) (bodies []string, messages []map[string]any) {
	t.Helper()
	ask := in{"QueueUrl": queueURL, "MaxNumberOfMessages": 10}
	for k, v := range more {
		ask[k] = v
	}
	got, _ := ok(t, s, "AmazonSQS.ReceiveMessage", ask)["Messages"].([]any)
	for _, m := range got {
		one, _ := m.(map[string]any)
		messages = append(messages, one)
		bodies = append(bodies, fmt.Sprint(one["Body"]))
	}
	return bodies, messages
}

func send(t *testing.T, s *Server, body string) {
	t.Helper()
	ok(t, s, "AmazonSQS.SendMessage", in{"QueueUrl": queueURL, "MessageBody": body})
}

func TestDelayVisibilityAndRetention(t *testing.T) {
	t.Parallel()
	s := withQueue(t, Options{}, map[string]string{"DelaySeconds": "10", "VisibilityTimeout": "40", "MessageRetentionPeriod": "120"})
	send(t, s, "late")
	ok(t, s, "AmazonSQS.SendMessage", in{"QueueUrl": queueURL, "MessageBody": "at once", "DelaySeconds": 0})
	steps := []struct {
		advance time.Duration
		want    []string
	}{
		{0, []string{"at once"}},
		{11 * time.Second, []string{"late"}},
		{20 * time.Second, nil},
		{11 * time.Second, []string{"at once"}},
		{100 * time.Second, nil}, // too old by now
	}
	for i, step := range steps {
		s.Advance(step.advance)
		if got, _ := take(t, s, nil); !cmp.Equal(got, step.want) {
			t.Errorf("step %d: received %q, want %q", i, got, step.want)
		}
	}
	if st := s.Stats(); st.Expired != 2 || st.Received != 3 || st.Calls["ReceiveMessage"]["ok"] != 5 {
		t.Errorf("stats %+v", st)
	}
}

// A message whose visibility ends while somebody polls wakes the poll.
func TestVisibilityWakesALongPoll(t *testing.T) {
	t.Parallel()
	s := withQueue(t, Options{}, map[string]string{"VisibilityTimeout": "1"})
	send(t, s, "x")
	take(t, s, nil)
	start := time.Now()
	if got, _ := take(t, s, in{"WaitTimeSeconds": 20}); len(got) != 1 || time.Since(start) > 15*time.Second {
		t.Errorf("received %q after %s", got, time.Since(start))
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := withQueue(t, Options{MaxBytes: 2000, MaxMessages: 2}, map[string]string{"MaximumMessageSize": "1024"})
	entry := func(id, body string) in { return in{"Id": id, "MessageBody": body} }
	batch := func(entries ...in) in { return in{"QueueUrl": queueURL, "Entries": entries} }
	eleven := make([]in, 11)
	for i := range eleven {
		eleven[i] = entry(fmt.Sprint(i), "x")
	}
	cases := []struct {
		target string
		in     any
		want   string
	}{
		{"AmazonSQS.Nothing", in{}, "UnknownOperationException"},
		{"AmazonSQS.SendMessage", []int{1}, "SerializationException"},
		{"AmazonSQS.SendMessage", in{"QueueUrl": 1}, "SerializationException"},
		{"AmazonSQS.SendMessage", in{"QueueUrl": "http://fake.test/0/none", "MessageBody": "x"}, "QueueDoesNotExist"},
		{"AmazonSQS.SendMessage", in{"MessageBody": "x"}, "InvalidAddress"},
		{"AmazonSQS.SendMessage", in{"QueueUrl": queueURL}, "MissingParameter"},
		{"AmazonSQS.SendMessage", in{"QueueUrl": queueURL, "MessageBody": "\x01"}, "InvalidMessageContents"},
		{"AmazonSQS.SendMessage", in{"QueueUrl": queueURL, "MessageBody": strings.Repeat("x", 1025)}, "InvalidParameterValue"},
		{"AmazonSQS.SendMessage", in{"QueueUrl": queueURL, "MessageBody": "x", "DelaySeconds": 901}, "InvalidParameterValue"},
		{"AmazonSQS.SendMessageBatch", batch(), "EmptyBatchRequest"},
		{"AmazonSQS.SendMessageBatch", batch(eleven...), "TooManyEntriesInBatchRequest"},
		{"AmazonSQS.SendMessageBatch", batch(entry("a", "x"), entry("a", "y")), "BatchEntryIdsNotDistinct"},
		{"AmazonSQS.SendMessageBatch", batch(entry("a b", "x")), "InvalidBatchEntryId"},
		{"AmazonSQS.SendMessageBatch", batch(entry("a", strings.Repeat("x", 1001)), entry("b", strings.Repeat("x", 1000))), "BatchRequestTooLong"},
		{"AmazonSQS.ReceiveMessage", in{"QueueUrl": queueURL, "MaxNumberOfMessages": 11}, "InvalidParameterValue"},
		{"AmazonSQS.ReceiveMessage", in{"QueueUrl": queueURL, "WaitTimeSeconds": 21}, "InvalidParameterValue"},
		{"AmazonSQS.ReceiveMessage", in{"QueueUrl": queueURL, "VisibilityTimeout": -1}, "InvalidParameterValue"},
		{"AmazonSQS.DeleteMessage", in{"QueueUrl": queueURL, "ReceiptHandle": "x"}, "ReceiptHandleIsInvalid"},
		{"AmazonSQS.ChangeMessageVisibility", in{"QueueUrl": queueURL, "ReceiptHandle": "x"}, "ReceiptHandleIsInvalid"},
		{"AmazonSQS.CreateQueue", in{"QueueName": "q.fifo"}, "InvalidParameterValue"},
		{"AmazonSQS.CreateQueue", in{"QueueName": "r", "Attributes": in{"VisibilityTimeout": "x"}}, "InvalidAttributeValue"},
		{"AmazonSQS.SetQueueAttributes", in{"QueueUrl": queueURL, "Attributes": in{"Nothing": "1"}}, "InvalidAttributeName"},
		{"AmazonSQS.GetQueueUrl", in{"QueueName": "q", "QueueOwnerAWSAccountId": "1"}, "QueueDoesNotExist"},
		{"AmazonSQS.StartMessageMoveTask", in{"SourceArn": "arn:aws:sqs:us-east-1:000000000000:q"}, "InvalidParameterValue"},
		{"AmazonSQS.StartMessageMoveTask", in{"SourceArn": "arn:aws:sqs:us-east-1:000000000000:none"}, "ResourceNotFoundException"},
		{"AmazonSQS.ListMessageMoveTasks", in{"SourceArn": "none"}, "ResourceNotFoundException"},
		{"AWSEvents.PutEvents", in{"Entries": []in{}}, "ValidationException"},
		{"AWSEvents.PutEvents", in{"Entries": []in{{"Detail": strings.Repeat("x", 2001)}}}, "ValidationException"},
		{"AWSEvents.DescribeEventBus", in{"Name": "none"}, "ResourceNotFoundException"},
		{"AWSEvents.CreateEventBus", in{"Name": "default"}, "ResourceAlreadyExistsException"},
		{"AWSEvents.PutRule", in{"Name": "r", "EventPattern": "{"}, "InvalidEventPatternException"},
		{"AWSEvents.DescribeRule", in{"Name": "none"}, "ResourceNotFoundException"},
		{"AWSEvents.PutTargets", in{"Rule": "none"}, "ResourceNotFoundException"},
		{"AWSEvents.RemoveTargets", in{"Rule": "none"}, "ResourceNotFoundException"},
		{"AWSEvents.DeleteRule", in{"Name": "none"}, "ResourceNotFoundException"},
		{"AWSEvents.DeleteEventBus", in{"Name": "default"}, "ValidationException"},
	}
	for _, c := range cases {
		code, out := do(t, s, c.target, c.in)
		if got := fmt.Sprint(out["__type"]); code < 400 || strings.TrimPrefix(got, "com.amazonaws.sqs#") != c.want {
			t.Errorf("%s %.80v: %d %s, want %s", c.target, c.in, code, got, c.want)
		}
	}
	send(t, s, "1")
	send(t, s, "2")
	if _, out := do(t, s, "AmazonSQS.SendMessage", in{"QueueUrl": queueURL, "MessageBody": "3"}); out["__type"] != "com.amazonaws.sqs#OverLimit" {
		t.Errorf("a queue of two took a third: %v", out)
	}
}

// PutEvents judges each entry and takes the rest; a bus that does not exist answers
// success like any other.
func TestPutEvents(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	url := "http://fake.test"
	s.Provision(url, Layout{FullEvent: true})
	event := func(change in) in {
		e := in{"EventBusName": "brief", "Source": "brief.ops", "DetailType": "matter.created", "Detail": `{"v":1}`}
		for k, v := range change {
			e[k] = v
		}
		return e
	}
	out := ok(t, s, "AWSEvents.PutEvents", in{"Entries": []in{
		event(nil), event(in{"Source": ""}), event(in{"DetailType": ""}), event(in{"DetailType": strings.Repeat("x", 129)}),
		event(in{"Detail": "hello"}), event(in{"Detail": "null"}), event(in{"Source": "aws.s3"}), event(in{"EventBusName": "gone"}), event(in{"Source": "other"}),
	}})
	want := []string{"", "InvalidArgument", "InvalidArgument", "InvalidArgument", "MalformedDetail", "MalformedDetail", "NotAuthorizedForSourceException", "", ""}
	results, _ := out["Entries"].([]any)
	for i, r := range results {
		one, _ := r.(map[string]any)
		if code, _ := one["ErrorCode"].(string); code != want[i] || (code == "") == (one["EventId"] == nil) {
			t.Errorf("entry %d: %v, want %q", i, one, want[i])
		}
	}
	if out["FailedEntryCount"] != 6.0 || len(results) != 9 {
		t.Errorf("failed %v of %d", out["FailedEntryCount"], len(results))
	}
	bodies := s.Bodies("brief")
	var e struct {
		Type   string `json:"detail-type"`
		Detail struct{ V int }
		ID     string
	}
	if len(bodies) != 1 || json.Unmarshal([]byte(bodies[0]), &e) != nil || e.Type != "matter.created" || e.Detail.V != 1 || e.ID == "" {
		t.Errorf("queue holds %q", bodies)
	}
	if st := s.Stats(); st.Events != 3 || st.Unmatched != 2 || st.Arrived != 1 {
		t.Errorf("stats %+v", st)
	}
	ok(t, s, "AmazonSQS.DeleteQueue", in{"QueueUrl": url + "/000000000000/brief"})
	ok(t, s, "AWSEvents.PutEvents", in{"Entries": []in{event(nil)}})
	if bodies := s.Bodies("brief-undelivered"); len(bodies) != 1 {
		t.Errorf("the target's dead letters are %q", bodies)
	}
	ok(t, s, "AWSEvents.DisableRule", in{"Name": "brief", "EventBusName": "brief"})
	ok(t, s, "AWSEvents.PutEvents", in{"Entries": []in{event(nil)}})
	if bodies := s.Bodies("brief-undelivered"); len(bodies) != 1 {
		t.Errorf("a disabled rule delivered: %q", bodies)
	}
}

// A rule goes after its targets, and a bus after its rules.
func TestTakenDownInOrder(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	s.Provision("http://fake", Layout{})
	steps := []struct {
		target string
		in     in
	}{
		{"AWSEvents.RemoveTargets", in{"Rule": "brief", "EventBusName": "brief", "Ids": []string{"queue", "none"}}},
		{"AWSEvents.DeleteRule", in{"Name": "brief", "EventBusName": "brief"}},
		{"AWSEvents.DeleteEventBus", in{"Name": "brief"}},
	}
	for _, early := range steps[1:] {
		if code, out := do(t, s, early.target, early.in); code < 400 || out["__type"] != "ValidationException" {
			t.Errorf("%s too early: %d %v", early.target, code, out)
		}
	}
	for _, step := range steps {
		ok(t, s, step.target, step.in)
	}
	ok(t, s, "AWSEvents.DeleteEventBus", steps[2].in)
	if code, out := do(t, s, "AWSEvents.DescribeEventBus", steps[2].in); code < 400 {
		t.Errorf("the bus is still there: %v", out)
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	event := `{"source":"brief.ops","detail-type":"matter.created","resources":["a","b"],"detail":{"v":1,"x":{"y":null}}}`
	for pattern, want := range map[string]bool{
		`{}`: true, `{"source":["brief.ops"]}`: true, `{"source":["x","brief.ops"]}`: true, `{"source":["x"]}`: false, `{"source":[]}`: false,
		`{"source":[{"prefix":"brief."}]}`: true, `{"source":[{"prefix":"ops"}]}`: false, `{"detail-type":[{"suffix":".created"}]}`: true,
		`{"source":[{"anything-but":"x"}]}`: true, `{"source":[{"anything-but":["x","brief.ops"]}]}`: false, `{"none":[{"anything-but":"x"}]}`: false,
		`{"none":[{"exists":false}]}`: true, `{"source":[{"exists":true}]}`: true, `{"source":[{"exists":false}]}`: false,
		`{"source":[{"equals-ignore-case":"BRIEF.OPS"}]}`: true, `{"detail":{"v":[1]}}`: true, `{"detail":{"v":["1"]}}`: false,
		`{"detail":{"x":{"y":[null]}}}`: true, `{"detail":{"z":{"y":[null]}}}`: false, `{"resources":["b"]}`: true,
		`{"source":[{"wildcard":"*"}]}`: false, `{"source":"brief.ops"}`: false, `not json`: false, ``: false,
	} {
		if got := matches(pattern, []byte(event)); got != want {
			t.Errorf("%s: %v, want %v", pattern, got, want)
		}
	}
	for path, want := range map[string]string{"$": event, "$.detail.v": "1", "$.detail.x": `{"y":null}`, "$.none": "null"} {
		if got, ok := pick([]byte(event), path); !ok || string(got) != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if _, ok := pick([]byte(event), ""); ok {
		t.Error("no path picked something")
	}
}

// One seed, one story.
func TestChaosIsRepeatable(t *testing.T) {
	t.Parallel()
	story := func(seed uint64) Stats {
		s := withQueue(t, Options{Seed: seed}, nil)
		s.SetChaos(Chaos{Drop: .3, Duplicate: .3, Reorder: .3, Forge: .3})
		for i := range 1000 {
			send(t, s, fmt.Sprintf(`{"v":1,"event_id":"00000000-0000-4000-8000-%012d","matter_id":"00000000-0000-4000-8000-%012d"}`, i, i))
		}
		return s.Stats()
	}
	one, again, other := story(7), story(7), story(8)
	if diff := cmp.Diff(one, again); diff != "" {
		t.Errorf("two runs of one seed:\n%s", diff)
	}
	if cmp.Equal(one, other) {
		t.Error("two seeds tell one story")
	}
	for name, n := range map[string]int{"dropped": one.Dropped, "duplicated": one.Duplicated * 10 / 7, "reordered": one.Reordered * 10 / 7, "forged": one.Forged * 10 / 7} {
		if n < 230 || n > 370 {
			t.Errorf("%s: about %d of 1000, want about 300", name, n)
		}
	}
	if one.Arrived != 1000-one.Dropped+one.Duplicated+one.Forged {
		t.Errorf("arrivals do not add up: %+v", one)
	}
}

func TestForgeries(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	body := `{"v":1,"event_id":"00000000-0000-4000-8000-000000000001","matter_id":"00000000-0000-4000-8000-000000000002"}`
	kinds := map[string]int{}
	for range 100 {
		forged := s.forge(body)
		switch {
		case forged == body:
			t.Fatal("the counterfeit is the original")
		case !strings.Contains(forged, "000000000001") && strings.Contains(forged, "000000000002"):
			kinds["event"]++
		case strings.Contains(forged, "000000000001") && !strings.Contains(forged, "000000000002"):
			kinds["matter"]++
		default:
			kinds["none"]++
		}
	}
	if len(kinds) != 3 {
		t.Errorf("kinds of forgery: %v", kinds)
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	s := withQueue(t, Options{}, nil)
	ask := func(method, path, body string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://fake.test"+path, strings.NewReader(body))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	send(t, s, "hello")
	steps := []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"GET", "/_fake/messages?queue=q", "", 200, `["hello"]`},
		{"GET", "/_fake/messages?queue=none", "", 200, `[]`},
		{"POST", "/_fake/chaos", `{"drop":1}`, 200, `{"drop":1,"duplicate":0,"reorder":0,"forge":0}`},
		{"GET", "/_fake/chaos", "", 200, `{"drop":1,"duplicate":0,"reorder":0,"forge":0}`},
		{"POST", "/_fake/chaos", `{"drop":30}`, 400, "a share is from 0 to 1"},
		{"POST", "/_fake/chaos", `{"Drops":1}`, 400, `json: unknown field "Drops"`},
		{"POST", "/_fake/chaos", `x`, 400, ""},
		{"POST", "/_fake/fault", `{"op":"SendMessage","fault":"denied"}`, 200, `{"Op":"SendMessage","Fault":"denied","Share":1}`},
		{"POST", "/_fake/fault", `{"fault":"none"}`, 400, `no fault "none" with share 1`},
		{"POST", "/_fake/fault", `{"fault":"denied","share":2}`, 400, `no fault "denied" with share 2`},
		{"POST", "/_fake/advance", `{"seconds":1.5}`, 200, `{"Seconds":1.5}`},
		{"DELETE", "/_fake/stats", "", 404, "the fake has no DELETE /_fake/stats"},
	}
	for _, c := range steps {
		if code, got := ask(c.method, c.path, c.body); code != c.code || (c.want != "" && got != c.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.path, c.body, code, got, c.code, c.want)
		}
	}
	if code, _ := do(t, s, "AmazonSQS.SendMessage", in{"QueueUrl": queueURL, "MessageBody": "x"}); code != http.StatusBadRequest {
		t.Errorf("the standing fault was not met: %d", code)
	}
	if code, _ := ask("POST", "/_fake/clear", ""); code != 200 {
		t.Errorf("clear: %d", code)
	}
	send(t, s, "again")
	if s.Newest("q") != "again" || s.Newest("none") != "" {
		t.Errorf("newest %q and %q", s.Newest("q"), s.Newest("none"))
	}
	code, text := ask("GET", "/_fake/stats", "")
	var stats report
	if err := json.Unmarshal([]byte(text), &stats); code != 200 || err != nil || stats.Queues["q"].Visible != 2 || stats.Calls["SendMessage"]["AccessDeniedException"] != 1 {
		t.Errorf("stats %s", text)
	}
}

// Every fault of the control can be had by its name, and does something.
func TestNamedFaults(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"throttle", "expired_credentials", "denied", "internal_failure", "missing_queue", "reset_first", "accept_then_reset", "hang",
		"accept_then_hang", "drop", "duplicate", "reorder", "fail_first_entry", "poison_first_entry", "omit_first_entry", "html",
	} {
		f, known := namedFault(name)
		if !known || cmp.Equal(f, Fault{}, cmp.AllowUnexported(Fault{}, entryFault{}, garbage{})) {
			t.Errorf("%s: %+v, %v", name, f, known)
		}
	}
}

// Many at once: every message is handed to one receiver at a time, and none is lost.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := withQueue(t, Options{}, nil)
	const senders, each = 4, 100
	var wait sync.WaitGroup
	for i := range senders {
		wait.Go(func() {
			for j := range each {
				send(t, s, fmt.Sprintf("%d-%d", i, j))
			}
		})
	}
	got := make(chan string, senders*each)
	for range 4 {
		wait.Go(func() {
			for {
				bodies, messages := take(t, s, in{"WaitTimeSeconds": 1})
				if len(bodies) == 0 {
					return
				}
				for i, m := range messages {
					ok(t, s, "AmazonSQS.DeleteMessage", in{"QueueUrl": queueURL, "ReceiptHandle": m["ReceiptHandle"]})
					got <- bodies[i]
				}
			}
		})
	}
	wait.Wait()
	close(got)
	seen := map[string]int{}
	for body := range got {
		seen[body]++
	}
	if len(seen) != senders*each {
		t.Errorf("%d messages came out, want %d", len(seen), senders*each)
	}
	for body, n := range seen {
		if n != 1 {
			t.Errorf("%s came out %d times", body, n)
		}
	}
}

// Whatever it listens on, its URL is a place to call.
func TestListenSaysWhereItIsReached(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0", ":0"} {
		url, stop, err := New(Options{}).Listen(listen)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/_fake/stats", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := new(http.Client).Do(req); err != nil || !strings.HasPrefix(url, "http://127.0.0.1:") {
			t.Errorf("%s is called at %s: %v", listen, url, err)
		} else if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Errorf("%s answers %s", url, resp.Status)
		}
	}
}
