// Package nudge carries ids over AWS: it owns the message, the two ways to send it
// (EventBridge, SQS), the way to receive it, and what an answer of AWS means. It is
// the only package that imports the AWS SDK.
//
// A nudge is a tap on the shoulder: it names a fact and says nothing about it. It
// may be lost, doubled, reordered or forged, so nobody may act on its words alone;
// the ledger is asked. The package holds no state but clients and counters.
//
// Who decides: an answer counts as sent only where it names the entry as sent. What
// AWS cannot be expected to take ever is Final, what somebody must configure is
// Paused, and everything else, including what nobody understood, is Retry.
//
// Not promised: delivery. PutEvents to a bus that does not exist answers success, so
// Preflight looks at the whole way, and says unknown for what the credentials may
// not read.
package nudge
