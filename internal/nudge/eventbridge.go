package nudge

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/prometheus/client_golang/prometheus"
)

// EventBridgeOptions place the bus. Region and Endpoint empty leave the decision to
// the SDK's own sources (AWS_REGION, AWS_ENDPOINT_URL*, profiles). Timeout is the
// deadline of every call (zero means 10 s); Bytes the most that one call carries
// (zero means MaxBytes). Queue, when set, is the URL of the queue that the rule should
// feed: Preflight then checks the way there too. Registerer may be nil and may be
// shared with other sinks.
type EventBridgeOptions struct {
	Bus        string // name or ARN; empty means "default"
	Source     string // of every event; empty means "brief.ops"
	Queue      string
	Region     string
	Endpoint   string
	Timeout    time.Duration
	Bytes      int
	Registerer prometheus.Registerer
}

// defaultSource is relay.event_source where nothing else is said.
const defaultSource = "brief.ops"

// EventBridge sends nudges to a bus with PutEvents.
type EventBridge struct {
	aws         *awsClient
	api         *eventbridge.Client
	bus, source string
	bytes       int
	way         *way
}

// NewEventBridge makes the sink. It reads the SDK's default configuration and makes no
// call; the error says that the configuration cannot be read or has no region, or that
// Source is longer than 256 bytes.
func NewEventBridge(ctx context.Context, opts EventBridgeOptions) (*EventBridge, error) {
	e := &EventBridge{bus: cmp.Or(opts.Bus, "default"), source: cmp.Or(opts.Source, defaultSource), bytes: cmp.Or(max(opts.Bytes, 0), MaxBytes)}
	if len(e.source) > maxSource {
		return nil, fmt.Errorf("event source of %d bytes: at most %d", len(e.source), maxSource)
	}
	var err error
	if e.aws, err = newAWSClient(ctx, place{opts.Region, opts.Endpoint, opts.Timeout}, newMetrics(opts.Registerer)); err != nil {
		return nil, err
	}
	e.api = eventbridge.NewFromConfig(e.aws.cfg, func(o *eventbridge.Options) {
		o.BaseEndpoint = cmp.Or(e.aws.base(), o.BaseEndpoint)
		o.Retryer = aws.NopRetryer{} // the SDK would send the same batch again after an answer that was cut
	})
	e.way = newWay(e.aws, e.bus, e.source, opts.Queue)
	return e, nil
}

// Limits returns how many entries and how many bytes, counted by Size, one Publish
// takes.
func (e *EventBridge) Limits() (entries, bytes int) { return MaxEntries, e.bytes }

// Publish sends the nudges in one call: at most Limits entries and bytes. It returns
// one Result a nudge, in the same order, or an error when the call has no answer for
// any of them (see ClassOf): then none counts as sent.
func (e *EventBridge) Publish(ctx context.Context, nudges []Nudge) ([]Result, error) {
	return publish(ctx, nudges, e.bytes, e.put)
}

// put is one PutEvents. It may have been taken although it returns an error: the
// receivers know an event by its id, so it can be sent again.
func (e *EventBridge) put(ctx context.Context, nudges []Nudge) (results []Result, err error) {
	in := &eventbridge.PutEventsInput{Entries: make([]types.PutEventsRequestEntry, len(nudges))}
	for i, n := range nudges {
		in.Entries[i] = e.entry(n)
	}
	err = e.aws.call(ctx, apiPut, e.aws.place.timeout, func(ctx context.Context) (bool, error) {
		out, err := e.api.PutEvents(ctx, in)
		if err != nil {
			return false, err
		}
		results = eventResults(len(nudges), out.Entries)
		return allSent(results), nil
	})
	return results, err
}

func (e *EventBridge) entry(n Nudge) types.PutEventsRequestEntry {
	entry := types.PutEventsRequestEntry{
		EventBusName: &e.bus, Source: &e.source, DetailType: aws.String(string(n.Name)), Detail: aws.String(string(n.Encode())),
	}
	if header := xray(n.TraceParent); header != "" {
		entry.TraceHeader = &header
	}
	return entry
}

// eventResults judges each entry by its own result: "if the number of results does not
// match" nothing can be told, and FailedEntryCount is not looked at, as an entry says
// for itself whether it failed.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html
func eventResults(sent int, answers []types.PutEventsResultEntry) []Result {
	if len(answers) != sent {
		return unanswered(sent, codeLength, fmt.Sprintf("%d results for %d entries", len(answers), sent))
	}
	results := make([]Result, sent)
	for i, a := range answers {
		switch {
		case aws.ToString(a.ErrorCode) != "":
			results[i] = entryResult(*a.ErrorCode, aws.ToString(a.ErrorMessage), false)
		case aws.ToString(a.EventId) != "":
			results[i] = Result{Verdict: Sent}
		default:
			results[i] = Result{Verdict: Retry, Code: codeUnknown, Text: "neither an event id nor an error code"}
		}
	}
	return results
}

// xray turns a W3C traceparent into an X-Ray trace header, or nothing where it is none.
// https://docs.aws.amazon.com/xray/latest/devguide/xray-api-sendingdata.html
func xray(parent string) string {
	if len(parent) != 55 || parent[:3] != "00-" || parent[35] != '-' || parent[52] != '-' {
		return ""
	}
	trace, span, flags := parent[3:35], parent[36:52], parent[53:55]
	if !hexadecimal(trace) || !hexadecimal(span) || !hexadecimal(flags) {
		return ""
	}
	sampled := "0"
	if (flags[1]-'0')&1 == 1 && flags[1] <= '9' || flags[1] == 'b' || flags[1] == 'd' || flags[1] == 'f' {
		sampled = "1"
	}
	return "Root=1-" + trace[:8] + "-" + trace[8:] + ";Parent=" + span + ";Sampled=" + sampled
}

// hexadecimal reports whether s is lower-case hexadecimal, as traceparent must be.
func hexadecimal(s string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}

// Preflight looks at bus, rules, targets, dead-letter queues and, where Queue is set,
// the queue and its policy. What the credentials may not read is Unknown. The error
// says that AWS could not be asked at all; the findings so far come with it.
func (e *EventBridge) Preflight(ctx context.Context) ([]Finding, error) {
	return e.way.look(ctx)
}
