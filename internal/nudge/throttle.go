package nudge

// Throttled reports whether a code, one of Codes, says that too much was asked of
// the sink: a sender slows down for it.
func Throttled(code string) bool { return throttled(code) }
