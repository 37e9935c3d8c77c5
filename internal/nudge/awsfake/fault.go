package awsfake

import (
	"cmp"
	"maps"
	"net/http"
)

// Fault is how one call goes wrong. Make it with the functions below and combine two
// with And.
type Fault struct {
	code       string // of the whole call
	queueCode  string // instead of code where SQS has another word for it
	status     int
	fail       map[int]entryFault
	omit       map[int]bool
	results    *int
	zeroCount  bool
	accept     bool
	reset      bool
	resetFirst bool
	hang       bool
	drop       bool
	duplicate  bool
	reorder    bool
	garbage    *garbage
}

type entryFault struct {
	code   string
	sender bool
}

// garbage is an answer that is not AWS's.
type garbage struct {
	status     int
	kind, body string
}

func (g *garbage) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", g.kind)
	w.WriteHeader(g.status)
	_, _ = w.Write([]byte(g.body)) // a caller that is gone needs no answer
}

// standing is a fault that stays, with the share of calls that meet it.
type standing struct {
	rate  float64
	fault Fault
}

// And returns a fault that does both. Where both say something about the whole call,
// or about one entry, the second wins.
func (f Fault) And(g Fault) Fault {
	f.code, f.queueCode, f.status = cmp.Or(g.code, f.code), cmp.Or(g.queueCode, f.queueCode), cmp.Or(g.status, f.status)
	f.fail, f.omit = both(f.fail, g.fail), both(f.omit, g.omit)
	f.results = cmp.Or(g.results, f.results)
	f.garbage = cmp.Or(g.garbage, f.garbage)
	f.zeroCount = f.zeroCount || g.zeroCount
	f.accept, f.reset, f.resetFirst, f.hang = f.accept || g.accept, f.reset || g.reset, f.resetFirst || g.resetFirst, f.hang || g.hang
	f.drop, f.duplicate, f.reorder = f.drop || g.drop, f.duplicate || g.duplicate, f.reorder || g.reorder
	return f
}

func both[V any](a, b map[int]V) map[int]V {
	out := maps.Clone(a)
	if out == nil {
		return maps.Clone(b)
	}
	maps.Copy(out, b)
	return out
}

// codeFor is the code in the words of one service.
func (f Fault) codeFor(service string) string {
	if service == "AmazonSQS" {
		return cmp.Or(f.queueCode, f.code)
	}
	return f.code
}

// OK lets a call of a script pass unharmed.
func OK() Fault { return Fault{} }

// FailEntry fails entry i of a batch inside an answer of 200; the entry is not taken.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsResultEntry.html
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_BatchResultErrorEntry.html
func FailEntry(i int, code string) Fault {
	return Fault{fail: map[int]entryFault{i: {code: code}}}
}

// FailEntryBySender is FailEntry with SenderFault true, which only SQS has.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_BatchResultErrorEntry.html
func FailEntryBySender(i int, code string) Fault {
	return Fault{fail: map[int]entryFault{i: {code: code, sender: true}}}
}

// InvalidReceiptHandle refuses entry i of a delete or a change of visibility.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_DeleteMessage.html (ReceiptHandleIsInvalid)
func InvalidReceiptHandle(i int) Fault { return FailEntryBySender(i, "ReceiptHandleIsInvalid") }

// OmitEntry takes entry i and does not say so: EventBridge answers an entry with
// neither EventId nor ErrorCode, SQS names the id in neither list. The documentation
// promises neither away: "the result list may contain both successful and unsuccessful".
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html
func OmitEntry(i int) Fault { return Fault{omit: map[int]bool{i: true}} }

// ResultCount takes everything and answers PutEvents with a list of n results. AWS
// says "for each record, the index of the response element is the same"; a list of
// another length breaks that and can tell nothing.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html
func ResultCount(n int) Fault { return Fault{results: &n} }

// ZeroFailedCount answers FailedEntryCount 0 whatever failed.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html (FailedEntryCount)
func ZeroFailedCount() Fault { return Fault{zeroCount: true} }

// Refuse refuses the whole call with a code and an HTTP status; nothing is taken.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/CommonErrors.html
func Refuse(status int, code string) Fault { return Fault{status: status, code: code} }

// Throttle refuses the whole call because too much was asked: ThrottlingException of
// EventBridge, RequestThrottled of SQS.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/CommonErrors.html (ThrottlingException, 400)
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html (RequestThrottled, 400)
func Throttle() Fault {
	return Fault{status: http.StatusBadRequest, code: "ThrottlingException", queueCode: "RequestThrottled"}
}

// ExpiredCredentials refuses the whole call because the security token has expired.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/CommonErrors.html (ExpiredTokenException, 403)
func ExpiredCredentials() Fault { return Refuse(http.StatusForbidden, "ExpiredTokenException") }

// Denied refuses the whole call for want of a permission.
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/CommonErrors.html (AccessDeniedException, 400)
func Denied() Fault { return Refuse(http.StatusBadRequest, "AccessDeniedException") }

// ResetFirst cuts the connection before anything is taken.
// https://docs.aws.amazon.com/general/latest/gr/api-retries.html (a caller cannot tell it from AcceptThenReset)
func ResetFirst() Fault { return Fault{resetFirst: true} }

// AcceptThenReset takes everything and cuts the connection instead of answering.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/standard-queues-at-least-once-delivery.html
func AcceptThenReset() Fault { return Fault{accept: true, reset: true} }

// Hang takes nothing and never answers; the call ends when the caller gives up.
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-smart-config-defaults.html (no timeout by default)
func Hang() Fault { return Fault{hang: true} }

// AcceptThenHang takes everything and never answers.
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-smart-config-defaults.html
func AcceptThenHang() Fault { return Fault{accept: true, hang: true} }

// DropAfterAccept answers success and delivers nothing, as PutEvents does for a bus
// without a fitting rule.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-troubleshooting.html
func DropAfterAccept() Fault { return Fault{drop: true} }

// Duplicate delivers everything of this call twice.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/standard-queues-at-least-once-delivery.html
func Duplicate() Fault { return Fault{duplicate: true} }

// Reorder hands out the messages of one receive in reverse, or delivers what is sent
// in reverse.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/standard-queues.html (best-effort ordering)
func Reorder() Fault { return Fault{reorder: true} }

// Garbage answers with something that is not AWS's, as a proxy in between may.
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-gen-config.html (HTTPS_PROXY)
func Garbage(status int, contentType, body string) Fault {
	return Fault{garbage: &garbage{status: status, kind: contentType, body: body}}
}

// Script queues faults for the next calls of an operation ("PutEvents"; "*" for any),
// one a call, in this order.
func (s *Server) Script(op string, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[op] = append(s.scripts[op], faults...)
}

// Always lets a share of the calls of an operation (0 to 1; "*" for any) meet a fault
// until Clear. A script comes first.
func (s *Server) Always(op string, share float64, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standing[op] = append(s.standing[op], standing{rate: share, fault: f})
}

// Clear forgets every script and every standing fault.
func (s *Server) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.scripts)
	clear(s.standing)
}

// next takes the fault of a call.
func (s *Server) next(op string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range []string{op, "*"} {
		if queued := s.scripts[key]; len(queued) > 0 {
			s.scripts[key] = queued[1:]
			return queued[0]
		}
	}
	for _, key := range []string{op, "*"} {
		for _, st := range s.standing[key] {
			if s.random.Float64() < st.rate {
				return st.fault
			}
		}
	}
	return Fault{}
}
