package client

import (
	"fmt"
	"time"
)

// Conflict: the document changed. The intent is decided; whoever still wants it looks
// at the matter and asks under a new id.
type Conflict struct {
	Receipt  Receipt
	Expected int64
	Revision int64 // now
}

func (e *Conflict) Error() string {
	return fmt.Sprintf("the document changed: revision %d was seen, it is %d", e.Expected, e.Revision)
}

// Refused: the authority refused for a reason of its own, which the receipt has.
type Refused struct{ Receipt Receipt }

func (e *Refused) Error() string {
	return "the intent was refused by " + e.Receipt.Writer
}

// Moved: authority is elsewhere, and the client was not allowed or able to follow.
type Moved struct {
	Authority
	Why error // nil: it has named no endpoint
}

func (e *Moved) Error() string {
	return elsewhere("authority moved", e.Authority, e.Why)
}

// Unwrap is why it was not followed.
func (e *Moved) Unwrap() error { return e.Why }

// Retired: the path decides nothing any more, and the client was not allowed or able to
// follow.
type Retired struct {
	Authority
	Why error
}

func (e *Retired) Error() string {
	return elsewhere("the path is retired and authority is elsewhere", e.Authority, e.Why)
}

// Unwrap is why it was not followed.
func (e *Retired) Unwrap() error { return e.Why }

func elsewhere(what string, a Authority, why error) string {
	s := fmt.Sprintf("%s: %s has it under epoch %d", what, a.Writer, a.Epoch)
	if why != nil {
		return s + ": " + why.Error()
	}
	return s
}

// Lost: no reply came, or none that could be understood, to the intent or to the
// question for its receipt. It may have been executed. Send again later: the receipt is
// asked for first.
type Lost struct{ Why error }

func (e *Lost) Error() string { return "it is not known what became of the intent: " + e.Why.Error() }

// Unwrap is what went wrong last.
func (e *Lost) Unwrap() error { return e.Why }

// Closing: authority is about to move, and nothing was decided.
type Closing struct {
	Epoch int64
	After time.Duration
}

func (e *Closing) Error() string {
	return fmt.Sprintf("authority is about to move: the same intent again after %s", e.After)
}

// Unknown: an old authority has the intent and has not said what became of it. It must
// not be sent again; its receipt will tell.
type Unknown struct{ Receipt Receipt }

func (e *Unknown) Error() string {
	return "nobody knows yet what became of the intent under " + e.Receipt.Writer
}

// Differs: the id belongs to another intent.
type Differs struct{ Given, Recorded string } // digests; Recorded is empty where it is another firm's

func (e *Differs) Error() string { return "the intent id belongs to something else" }

// Rejected: the request is wrong, or not allowed. Nothing was decided by it, and the
// same again would be rejected again.
type Rejected struct {
	Status int
	Type   string // of the problem
	Detail string
}

func (e *Rejected) Error() string {
	return fmt.Sprintf("the request was rejected (%d): %s", e.Status, e.Detail)
}
