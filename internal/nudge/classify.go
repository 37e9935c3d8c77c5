package nudge

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Verdict is what an answer means for one nudge, or an error for a whole call.
type Verdict int

// The verdicts. The zero value is Retry, so that an answer nobody understood is
// never taken for success.
const (
	// Retry: throttled, an internal failure, unknown. Send it again later.
	Retry Verdict = iota
	// Sent: the answer names this entry as taken.
	Sent
	// Final: malformed, an invalid argument, the sender's fault: it will never be
	// taken, so the row parks.
	Final
	// Paused: access denied, expired credentials, a missing queue. Configuration: the
	// sink pauses and no row is blamed.
	Paused
)

// String returns the verdict as a word for logs and metrics.
func (v Verdict) String() string {
	switch v {
	case Sent:
		return "sent"
	case Final:
		return "final"
	case Paused:
		return "paused"
	default:
		return "retry"
	}
}

// Result is the verdict on one nudge of a Publish. Code is empty when it was sent,
// otherwise one of Codes, fit for a metric's label and for the row's last code. Text
// is AWS's own words, bounded and valid UTF-8, for a log or the row.
type Result struct {
	Verdict Verdict
	Code    string
	Text    string
}

// Codes of our own, for what AWS did not say.
const (
	codeOther       = "other"            // a code that nobody listed
	codeUnknown     = "no_answer_for_it" // the answer names it neither as taken nor as failed
	codeLength      = "length_mismatch"  // the list of results does not fit the list sent
	codeTimeout     = "timeout"          // no answer in time
	codeCanceled    = "canceled"         // the caller gave up
	codeConnection  = "connection"       // refused, reset or cut: no answer
	codeCredentials = "credentials"      // none could be had
	codeBadAnswer   = "bad_answer"       // an answer that is not AWS's
	codeTooLarge    = "too_large"        // one nudge alone is above the limit; never sent
	codeBadName     = "bad_name"         // a name that is no event name; never sent
)

// codes is what each code of AWS means; constant. From the error lists of PutEvents
// (PutEventsResultEntry), SendMessageBatch and the errors common to all services:
// https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsResultEntry.html
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
var codes = map[string]Verdict{
	codeUnknown: Retry, codeLength: Retry, codeTimeout: Retry, codeCanceled: Retry, codeConnection: Retry,
	codeBadAnswer: Retry, codeOther: Retry, codeCredentials: Paused, codeTooLarge: Final, codeBadName: Final,

	// Asked too much of it, or it fails by itself.
	"Throttling": Retry, "ThrottledException": Retry, "ThrottlingException": Retry, "RequestThrottled": Retry,
	"RequestThrottledException": Retry, "RequestLimitExceeded": Retry, "TooManyRequestsException": Retry, "SlowDown": Retry,
	"ProvisionedThroughputExceededException": Retry, "KmsThrottled": Retry, "LimitExceededException": Retry,
	"InternalFailure": Retry, "InternalError": Retry, "InternalException": Retry, "InternalServerError": Retry,
	"ServiceUnavailable": Retry, "ServiceUnavailableException": Retry, "ConcurrentModificationException": Retry,
	"RequestTimeout": Retry, "RequestTimeoutException": Retry, "RequestAbortedException": Retry, "OverLimit": Retry,

	// This entry will never be taken.
	"InvalidArgument": Final, "MalformedDetail": Final, "RedactionFailure": Final, "InvalidParameterValue": Final,
	"InvalidParameterValueException": Final, "InvalidParameterCombination": Final, "MissingParameter": Final,
	"InvalidMessageContents": Final, "InvalidAttributeName": Final, "InvalidAttributeValue": Final,
	"ValidationError": Final, "ValidationException": Final, "SerializationException": Final, "MalformedInput": Final,
	"BatchRequestTooLong": Final, "RequestEntityTooLargeException": Final, "TooManyEntriesInBatchRequest": Final,
	"BatchEntryIdsNotDistinct": Final, "InvalidBatchEntryId": Final, "EmptyBatchRequest": Final,

	// Nothing here is taken until somebody configures it.
	"AccessDenied": Paused, "AccessDeniedException": Paused, "NotAuthorized": Paused, "UnauthorizedOperation": Paused,
	"AuthorizationError": Paused, "AuthFailure": Paused, "InvalidSecurity": Paused, "InvalidAccountIdException": Paused,
	"NotAuthorizedForSourceException": Paused, "NotAuthorizedForDetailTypeException": Paused,
	"ExpiredToken": Paused, "ExpiredTokenException": Paused, "RequestExpired": Paused, "InvalidClientTokenId": Paused,
	"UnrecognizedClientException": Paused, "InvalidAccessKeyId": Paused, "InvalidToken": Paused, "MissingAuthenticationToken": Paused,
	"MissingAuthenticationTokenException": Paused, "IncompleteSignature": Paused, "IncompleteSignatureException": Paused,
	"InvalidSignatureException": Paused, "SignatureDoesNotMatch": Paused, "OptInRequired": Paused, "InvalidAction": Paused,
	"QueueDoesNotExist": Paused, "QueueDeletedRecently": Paused, "InvalidAddress": Paused,
	"ResourceNotFoundException": Paused, "UnknownOperationException": Paused, "UnsupportedOperation": Paused,
	"OperationDisabledException": Paused, "KmsAccessDenied": Paused, "KmsDisabled": Paused, "KmsInvalidKeyUsage": Paused,
	"KmsInvalidState": Paused, "KmsNotFound": Paused, "KmsOptInRequired": Paused,

	// Of settling, never of sending: the message comes back and is known then.
	"ReceiptHandleIsInvalid": Retry, "MessageNotInflight": Retry,
}

// Codes returns the closed set of codes, for initialising metrics.
func Codes() []string {
	all := make([]string, 0, len(codes))
	for code := range codes {
		all = append(all, code)
	}
	return all
}

// SafeCode returns an AWS error code in its short spelling if it is one of Codes,
// otherwise "other".
func SafeCode(code string) string {
	short := shortCode(code)
	if _, ok := codes[short]; ok {
		return short
	}
	return codeOther
}

// shortCode strips what the protocols put before a code: the JSON one a namespace, the
// query one the service's name. SQS answers the query protocol's word for a missing
// queue in a header that wins over the other.
func shortCode(code string) string {
	if i := strings.LastIndexByte(code, '#'); i >= 0 {
		code = code[i+1:]
	}
	code = strings.TrimPrefix(code, "AWS.SimpleQueueService.")
	if code == "NonExistentQueue" {
		return "QueueDoesNotExist"
	}
	return code
}

// entryResult judges the code that AWS gave for one entry. A code that nobody listed
// is Final only where AWS itself blames the sender.
func entryResult(code, text string, senderFault bool) Result {
	safe := SafeCode(code)
	verdict := codes[safe]
	if safe == codeOther {
		text = code + ": " + text
		if senderFault {
			verdict = Final
		}
	}
	return Result{Verdict: verdict, Code: safe, Text: clip(text)}
}

// ClassOf says what an error of a whole call means: no entry of it has an answer. The
// code is one of Codes. It is Sent only for a nil error, and Final only for a call that
// AWS will never take (Publish turns that into results by itself).
func ClassOf(err error) (Verdict, string) {
	code := codeOf(err)
	if code == "" {
		return Sent, ""
	}
	return codes[code], code
}

// codeOf finds the code of an error. What AWS said comes first; then what went wrong
// on the way.
func codeOf(err error) string {
	var api smithy.APIError
	var status *smithyhttp.ResponseError
	var network net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errCredentials):
		return codeCredentials
	case errors.Is(err, context.Canceled):
		return codeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return codeTimeout
	case errors.As(err, &api) && SafeCode(api.ErrorCode()) != codeOther:
		return SafeCode(api.ErrorCode())
	case errors.As(err, &network) && network.Timeout():
		return codeTimeout
	case isConnection(err): // the SDK gives it a response of status 0 too
		return codeConnection
	case errors.As(err, &status):
		return codeOfStatus(status.HTTPStatusCode())
	}
	return codeOther
}

// codeOfStatus judges an answer without a code that is known, as a proxy may give it.
func codeOfStatus(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "TooManyRequestsException"
	case status == http.StatusForbidden, status == http.StatusUnauthorized:
		return "AccessDenied"
	case status == http.StatusRequestEntityTooLarge:
		return "RequestEntityTooLargeException"
	case status >= 500:
		return "ServiceUnavailable"
	case status < 300:
		return codeBadAnswer
	default:
		return codeOther
	}
}

// isConnection reports whether no answer came because of the way there.
func isConnection(err error) bool {
	var sending *smithyhttp.RequestSendError
	var network net.Error
	return errors.As(err, &sending) || errors.As(err, &network)
}

// clip bounds a text of AWS and makes it fit for a row or a log.
func clip(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "?")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "")
	}
	return s
}
