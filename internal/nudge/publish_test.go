package nudge_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"briefrail/internal/nudge"
	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/nudge/nudgetest"
	"briefrail/internal/rail"
)

// stage is a fake with a rig on it and both sinks.
type stage struct {
	*nudgetest.Rig

	fake    *awsfake.Server
	reg     *prometheus.Registry
	timeout time.Duration // of every call: long, but where a hang is the point
}

func newStage(t *testing.T, shape nudgetest.Shape) *stage {
	t.Helper()
	fake, url := serve(t, awsfake.Options{})
	return &stage{Rig: nudgetest.Build(t.Context(), t, url, shape), fake: fake, reg: prometheus.NewRegistry(), timeout: 30 * time.Second}
}

// publisher is either sink.
type publisher interface {
	Publish(context.Context, []nudge.Nudge) ([]nudge.Result, error)
}

// sinks returns both sinks with the operation that each calls.
func (s *stage) sinks(t *testing.T) map[string]publisher {
	t.Helper()
	return map[string]publisher{
		"PutEvents":        s.Bridge(t.Context(), t, func(o *nudge.EventBridgeOptions) { o.Registerer, o.Timeout = s.reg, s.timeout }),
		"SendMessageBatch": s.Straight(t.Context(), t, func(o *nudge.SQSOptions) { o.Registerer, o.Timeout = s.reg, s.timeout }),
	}
}

func (s *stage) count(t *testing.T, api, outcome string) float64 {
	t.Helper()
	families, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "rail_aws_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["api"] == api && labels["outcome"] == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no counter for %s %s", api, outcome)
	return 0
}

// words are the results in short: "sent", or the verdict and the code.
func words(results []nudge.Result) []string {
	out := make([]string, len(results))
	for i, r := range results {
		out[i] = strings.TrimSpace(r.Verdict.String() + " " + r.Code)
	}
	return out
}

func repeated(n int, word string) []string {
	return strings.Fields(strings.Repeat(word+" ", n))
}

// arrived counts the messages in the queue.
func (s *stage) arrived() int {
	visible, inFlight, delayed := s.fake.Depth(s.Bus) // bus and queue bear one name
	return visible + inFlight + delayed
}

// Field report 10: the verdict is each entry's own, at its own index.
func TestEventBridgeResultsAreEachEntrysOwn(t *testing.T) {
	t.Parallel()
	mixed := awsfake.FailEntry(2, "InternalFailure").And(awsfake.FailEntry(5, "ThrottlingException")).And(awsfake.OmitEntry(8))
	want := repeated(10, "sent")
	want[2], want[5], want[8] = "retry InternalFailure", "retry ThrottlingException", "retry no_answer_for_it"
	length := make([]string, 10)
	for i := range length {
		length[i] = "retry length_mismatch"
	}
	first := repeated(10, "sent")
	first[0] = "retry InternalFailure"
	cases := []struct {
		name    string
		fault   awsfake.Fault
		want    []string
		arrived int
	}{
		{"7 good of 10", mixed, want, 8},
		{"the same with a failed count of 0", mixed.And(awsfake.ZeroFailedCount()), want, 8},
		{"the first entry decides nothing", awsfake.FailEntry(0, "InternalFailure"), first, 9},
		{"a list of 9", awsfake.ResultCount(9), length, 10},
		{"a list of 11", awsfake.ResultCount(11), length, 10},
		{"an empty list", awsfake.ResultCount(0), length, 10},
		{"dropped after it was accepted", awsfake.DropAfterAccept(), repeated(10, "sent"), 0},
		{"doubled on the way", awsfake.Duplicate(), repeated(10, "sent"), 20},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, nudgetest.Shape{})
			s.fake.Script("PutEvents", c.fault)
			got, err := s.sinks(t)["PutEvents"].Publish(t.Context(), nudgetest.Nudges(10))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, words(got)); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			if s.arrived() != c.arrived {
				t.Errorf("%d messages arrived, want %d", s.arrived(), c.arrived)
			}
		})
	}
}

// Field report 10 for the queue: an id counts where Successful names it, wherever it
// stands there, and nowhere else.
func TestSQSResultsAreEachEntrysOwn(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{})
	sink := s.sinks(t)["SendMessageBatch"]
	s.fake.Script("SendMessageBatch",
		awsfake.FailEntry(1, "InternalError").And(awsfake.FailEntryBySender(3, "InvalidMessageContents")).
			And(awsfake.FailEntryBySender(4, "RequestThrottled")).And(awsfake.FailEntryBySender(5, "AccessDenied")).
			And(awsfake.FailEntryBySender(6, "NobodyKnows")).And(awsfake.FailEntry(7, "NobodyKnows")).
			And(awsfake.OmitEntry(8)).And(awsfake.Reorder()))
	got, err := sink.Publish(t.Context(), nudgetest.Nudges(10))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"sent", "retry InternalError", "sent", "final InvalidMessageContents", "retry RequestThrottled",
		"paused AccessDenied", "final other", "retry other", "retry no_answer_for_it", "sent",
	}
	if diff := cmp.Diff(want, words(got)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if s.count(t, "send_message_batch", "partial") != 1 {
		t.Error("an answer that does not take all is not counted as partial")
	}
}

// Each code of AWS's lists has its class: throttling and internal failures retry, what
// is malformed is final, configuration pauses the sink.
func TestEntryCodes(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{})
	sink := s.sinks(t)["PutEvents"]
	for code, want := range map[string]string{
		"InternalFailure": "retry", "InternalException": "retry", "ThrottlingException": "retry", "LimitExceededException": "retry",
		"MalformedDetail": "final", "InvalidArgument": "final", "RedactionFailure": "final",
		"AccessDeniedException": "paused", "InvalidAccountIdException": "paused", "NotAuthorizedForSourceException": "paused",
		"NotAuthorizedForDetailTypeException": "paused", "ExpiredTokenException": "paused",
	} {
		s.fake.Script("PutEvents", awsfake.FailEntry(0, code))
		got, err := sink.Publish(t.Context(), nudgetest.Nudges(2))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{want + " " + code, "sent"}, words(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", code, diff)
		}
	}
}

// A call without an answer for any entry is an error, made once, with its class.
func TestWholeCalls(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		fault   awsfake.Fault
		want    string
		outcome string
		arrived int
	}{
		{"throttled", awsfake.Throttle(), "retry throttled", "throttled", 0},
		{"unavailable", awsfake.Refuse(http.StatusServiceUnavailable, "ServiceUnavailable"), "retry ServiceUnavailable", "error", 0},
		{"failed inside", awsfake.Refuse(http.StatusInternalServerError, "InternalFailure"), "retry InternalFailure", "error", 0},
		{"an unknown code of 500", awsfake.Refuse(http.StatusBadGateway, "Whatever"), "retry ServiceUnavailable", "error", 0},
		{"an unknown code of 400", awsfake.Refuse(http.StatusBadRequest, "Whatever"), "retry other", "error", 0},
		{"an unknown code of 403", awsfake.Refuse(http.StatusForbidden, "Whatever"), "paused AccessDenied", "denied", 0},
		{"expired credentials", awsfake.ExpiredCredentials(), "paused ExpiredTokenException", "expired_credentials", 0},
		{"denied", awsfake.Denied(), "paused AccessDeniedException", "denied", 0},
		{"unknown client", awsfake.Refuse(http.StatusForbidden, "UnrecognizedClientException"), "paused UnrecognizedClientException", "expired_credentials", 0},
		{"not authorized", awsfake.Refuse(http.StatusBadRequest, "NotAuthorized"), "paused NotAuthorized", "denied", 0},
		{"a bad signature", awsfake.Refuse(http.StatusForbidden, "SignatureDoesNotMatch"), "paused SignatureDoesNotMatch", "denied", 0},
		{"missing queue", awsfake.Refuse(http.StatusBadRequest, "QueueDoesNotExist"), "paused QueueDoesNotExist", "denied", 0},
		{"reset before it was accepted", awsfake.ResetFirst(), "retry connection", "connection", 0},
		{"accepted, then reset", awsfake.AcceptThenReset(), "retry connection", "connection", 3},
		{"hung", awsfake.Hang(), "retry timeout", "timeout", 0},
		{"accepted, then hung", awsfake.AcceptThenHang(), "retry timeout", "timeout", 3},
		{"a page of HTML", awsfake.Garbage(200, "text/html", "<html>sign in</html>"), "retry bad_answer", "error", 0},
		{"a page of HTML with 403", awsfake.Garbage(403, "text/html", "<html>no</html>"), "paused AccessDenied", "denied", 0},
		{"an answer cut short", awsfake.Garbage(200, "application/x-amz-json-1.1", `{"Entries":[`), "retry bad_answer", "error", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for op, sink := range newStageSinks(t, c.fault, c.outcome == "timeout") {
				start := time.Now()
				got, err := sink.publisher.Publish(t.Context(), nudgetest.Nudges(3))
				verdict, code := nudge.ClassOf(err)
				word := strings.NewReplacer("ThrottlingException", "throttled", "RequestThrottled", "throttled").Replace(verdict.String() + " " + code)
				if got != nil || word != c.want {
					t.Errorf("%s: %v, %s, %v; want %s", op, words(got), word, err, c.want)
				}
				if took := time.Since(start); took > 20*time.Second {
					t.Errorf("%s took %s", op, took)
				}
				if n := sink.stage.fake.Calls(op); n != 1 {
					t.Errorf("%s was called %d times: the SDK's retries are off", op, n)
				}
				if n := sink.stage.count(t, api(op), c.outcome); n != 1 {
					t.Errorf("%s: outcome %s counted %v times", op, c.outcome, n)
				}
				if n := sink.stage.arrived(); n != c.arrived {
					t.Errorf("%s: %d messages arrived, want %d", op, n, c.arrived)
				}
			}
		})
	}
}

func api(op string) string {
	return map[string]string{"PutEvents": "put_events", "SendMessageBatch": "send_message_batch"}[op]
}

type stagedSink struct {
	publisher

	stage *stage
}

// newStageSinks gives each sink a stage of its own, where its next call goes wrong.
func newStageSinks(t *testing.T, f awsfake.Fault, short bool) map[string]stagedSink {
	t.Helper()
	out := map[string]stagedSink{}
	for _, op := range []string{"PutEvents", "SendMessageBatch"} {
		s := newStage(t, nudgetest.Shape{})
		if short {
			s.timeout = time.Second
		}
		s.fake.Script(op, f)
		out[op] = stagedSink{s.sinks(t)[op], s}
	}
	return out
}

// A call that AWS refuses as a whole because of one entry parks that one alone.
func TestAPoisonedCallBlamesOneNudge(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{})
	for op, sink := range s.sinks(t) {
		invalid := awsfake.Refuse(http.StatusBadRequest, "ValidationException")
		s.fake.Script(op, invalid, awsfake.OK(), invalid, awsfake.Throttle())
		got, err := sink.Publish(t.Context(), nudgetest.Nudges(4))
		if err != nil {
			t.Fatal(err)
		}
		throttled := map[string]string{"PutEvents": "retry ThrottlingException", "SendMessageBatch": "retry RequestThrottled"}[op]
		if diff := cmp.Diff([]string{"sent", "final ValidationException", throttled, "sent"}, words(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", op, diff)
		}
		s.fake.Script(op, invalid)
		got, err = sink.Publish(t.Context(), nudgetest.Nudges(1))
		if diff := cmp.Diff([]string{"final ValidationException"}, words(got)); diff != "" || err != nil {
			t.Errorf("%s alone: %v (-want +got):\n%s", op, err, diff)
		}
	}
}

// Field report 11: what no sink would take is judged before the call and spoils nobody
// else's; eleven are a fault of the caller.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{})
	nudges := nudgetest.Nudges(4)
	nudges[0].TraceParent, nudges[0].TraceState = strings.Repeat("a", 500), strings.Repeat("b", 512) // the oldest is the too large one
	nudges[2].Name = rail.EventName("a." + strings.Repeat("b", 127))
	want := []string{"final too_large", "sent", "final bad_name", "sent"}
	bridge := s.Bridge(t.Context(), t, func(o *nudge.EventBridgeOptions) { o.Bytes = 1200 })
	straight := s.Straight(t.Context(), t, func(o *nudge.SQSOptions) { o.Bytes = 1200 })
	for _, sink := range []publisher{bridge, straight} {
		got, err := sink.Publish(t.Context(), nudges)
		if diff := cmp.Diff(want, words(got)); diff != "" || err != nil {
			t.Errorf("%T: %v (-want +got):\n%s", sink, err, diff)
		}
		got, err = sink.Publish(t.Context(), nudges[:1])
		if diff := cmp.Diff(want[:1], words(got)); diff != "" || err != nil {
			t.Errorf("%T, nothing to send: %v (-want +got):\n%s", sink, err, diff)
		}
		if got, err := sink.Publish(t.Context(), nudgetest.Nudges(11)); err == nil {
			t.Errorf("%T took 11: %v", sink, words(got))
		}
		if got, err := sink.Publish(t.Context(), nil); got != nil || err != nil {
			t.Errorf("%T, none: %v, %v", sink, got, err)
		}
	}
	if entries, bytes := bridge.Limits(); entries != 10 || bytes != 1200 {
		t.Errorf("limits %d, %d", entries, bytes)
	}
	if entries, bytes := s.Straight(t.Context(), t).Limits(); entries != 10 || bytes != nudge.MaxBytes {
		t.Errorf("limits by default %d, %d", entries, bytes)
	}
}

// Ten of the largest nudges that Encode makes fit into one call by far.
func TestTheLargestNudgesFit(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{})
	nudges := nudgetest.Nudges(10)
	total := 0
	for i := range nudges {
		nudges[i].Name = rail.EventName("a." + strings.Repeat("b", 98))
		nudges[i].TraceParent, nudges[i].TraceState = strings.Repeat(`"`, 512), strings.Repeat(`\`, 512)
		total += nudge.Size(nudges[i])
	}
	if total > nudge.MaxBytes {
		t.Errorf("ten nudges count for %d bytes", total)
	}
	for op, sink := range s.sinks(t) {
		if got, err := sink.Publish(t.Context(), nudges); err != nil || strings.Join(words(got), " ") != strings.Join(repeated(10, "sent"), " ") {
			t.Errorf("%s: %v, %v", op, words(got), err)
		}
	}
}

// Expired credentials are read anew: what was rotated is used without a restart.
func TestExpiredCredentialsAreReadAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{})
	sink := s.sinks(t)["PutEvents"]
	s.fake.Script("PutEvents", awsfake.ExpiredCredentials(), awsfake.OK())
	if _, err := sink.Publish(t.Context(), nudgetest.Nudges(1)); err == nil {
		t.Fatal("expired credentials were no error")
	}
	got, err := sink.Publish(t.Context(), nudgetest.Nudges(1))
	if err != nil || got[0].Verdict != nudge.Sent {
		t.Errorf("after the expiry: %v, %v", words(got), err)
	}
}

// Nothing listens: no credentials are to blame, and no entry has an answer.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	sink, err := nudge.NewEventBridge(t.Context(), nudge.EventBridgeOptions{Endpoint: "http://127.0.0.1:1", Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	_, err = sink.Publish(t.Context(), nudgetest.Nudges(1))
	if verdict, code := nudge.ClassOf(err); verdict != nudge.Retry || code != "connection" {
		t.Errorf("%s %s: %v", verdict, code, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = sink.Publish(ctx, nudgetest.Nudges(1))
	if verdict, code := nudge.ClassOf(err); verdict != nudge.Retry || code != "canceled" {
		t.Errorf("%s %s: %v", verdict, code, err)
	}
}

func TestCodesAreAClosedSet(t *testing.T) {
	t.Parallel()
	set := map[string]bool{}
	for _, c := range nudge.Codes() {
		set[c] = true
	}
	for in, want := range map[string]string{
		"AWS.SimpleQueueService.NonExistentQueue": "QueueDoesNotExist", "com.amazonaws.sqs#QueueDoesNotExist": "QueueDoesNotExist",
		"ThrottlingException": "ThrottlingException", "tenant-4711": "other", "\xff": "other", "": "other",
	} {
		if got := nudge.SafeCode(in); got != want || !set[got] {
			t.Errorf("SafeCode(%q) = %q, want %q", in, got, want)
		}
	}
	if verdict, code := nudge.ClassOf(nil); verdict != nudge.Sent || code != "" {
		t.Errorf("no error is %s %q", verdict, code)
	}
	if verdict, code := nudge.ClassOf(fmt.Errorf("something")); verdict != nudge.Retry || code != "other" {
		t.Errorf("any error is %s %q", verdict, code)
	}
}

// Several clients of one program share the counters, and every series is there before
// the first call.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newStage(t, nudgetest.Shape{})
	s.sinks(t)
	s.Receiver(t.Context(), t, func(o *nudge.QueueOptions) { o.Registerer = s.reg })
	if n, err := testutil.GatherAndCount(s.reg, "rail_aws_requests_total"); err != nil || n != 8*8 {
		t.Errorf("%d series of requests, %v", n, err)
	}
	if n, err := testutil.GatherAndCount(s.reg, "rail_aws_request_duration_seconds"); err != nil || n != 8 {
		t.Errorf("%d series of durations, %v", n, err)
	}
	if problems, err := testutil.GatherAndLint(s.reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
