package pg

import (
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrUnknownOutcome marks a failure after which nobody can tell from the error
// whether the work was committed: ask the database, by run id or event id, before
// acting on it.
var ErrUnknownOutcome = errors.New("outcome unknown")

const readOnlyTransaction = "25006"

// SQLState returns the five-character code that the server gave, or "" when the
// error did not come from a server.
func SQLState(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) && len(pe.Code) == 5 {
		return pe.Code
	}
	return ""
}

// Constraint returns the name of the violated constraint (or the one that a guard
// trigger raised), or "".
func Constraint(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.ConstraintName
	}
	return ""
}

// Class sorts an error into the closed set of Classes; it is "" for nil and
// "client" for an error without an SQLSTATE (timeouts, lost connections).
func Class(err error) string {
	if err == nil {
		return ""
	}
	state := SQLState(err)
	if state == "" {
		return "client"
	}
	if c := state[:2]; slices.Contains(Classes(), c) {
		return c
	}
	return "other"
}

// Classes is the closed set of values of Class, for metric labels.
func Classes() []string {
	return []string{"08", "22", "23", "25", "40", "42", "53", "55", "57", "58", "XX", "other", "client"}
}

// IsReadOnly reports whether the server refused because it does not take writes,
// now or at connect.
func IsReadOnly(err error) bool {
	return SQLState(err) == readOnlyTransaction || errors.Is(err, pgconn.ErrReadOnlyConnection)
}

// IsTransient reports whether the same work may succeed later without anybody
// changing it: lost connections, conflicts, exhausted resources, shutdowns, lock
// timeouts, a read-only server, and deadlines of ours. Cancellation by the caller
// is not transient, and neither is a constraint or a syntax error.
func IsTransient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	switch state := SQLState(err); {
	case refusedByPooler(err):
		return false
	case state == "":
		return lost(err) || errors.Is(err, pgconn.ErrReadOnlyConnection)
	case state == "40001", state == "40P01", state == "40003", state == "55P03", state == readOnlyTransaction:
		return true
	default:
		return slices.Contains([]string{"08", "53", "57"}, state[:2])
	}
}

// IsUnknownOutcome reports whether the statement that returned err may have been
// executed all the same: the connection or the deadline went after it was sent. It
// errs on the safe side: a context that ended while waiting for a session counts
// too, because the driver's error does not tell the two apart.
func IsUnknownOutcome(err error) bool {
	if err == nil || pgconn.SafeToRetry(err) {
		return false
	}
	if errors.Is(err, ErrUnknownOutcome) {
		return true
	}
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) {
		return false
	}
	if state := SQLState(err); state != "" {
		// The server may have said goodbye right after finishing the work.
		return state == "40003" || state[:2] == "08" || strings.HasPrefix(state, "57P0")
	}
	return lost(err) || errors.Is(err, context.Canceled)
}

// lost reports whether err, which has no SQLSTATE, is about the connection or a
// deadline rather than about the caller's arguments.
func lost(err error) bool {
	var ne net.Error
	var ce *pgconn.ConnectError
	return errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err) || errors.As(err, &ne) || errors.As(err, &ce) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed)
}

var (
	dsnURL   = regexp.MustCompile(`(?i)postgres(ql)?://\S+`)
	password = regexp.MustCompile(`(?i)(password|passwd|pwd)\s*=\s*('[^']*'|\S+)`)
)

// Text is err in words fit for a log line or a run row: valid UTF-8 without
// control characters, at most limit bytes, without connection strings, passwords or
// row values. The server's detail, hint and context are left out, because they
// quote rows.
func Text(err error, limit int) string {
	if err == nil {
		return ""
	}
	s := err.Error()
	var pe *pgconn.PgError
	if errors.As(err, &pe) && strings.HasPrefix(pe.Code, "22") {
		// Class 22 messages repeat the offending value after a colon.
		if head, _, ok := strings.Cut(pe.Message, ": "); ok {
			s = strings.ReplaceAll(s, pe.Message, head)
		}
	}
	s = dsnURL.ReplaceAllString(s, "postgres://[removed]")
	s = password.ReplaceAllString(s, "$1=[removed]")
	return clip(printable(unrepeated(s)), limit)
}

// unrepeated drops lines that were there before: the driver tells a server that
// refuses with TLS and without as two lines of the same words.
func unrepeated(s string) string {
	if !strings.Contains(s, "\n") {
		return s
	}
	var kept []string
	for line := range strings.SplitSeq(s, "\n") {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(kept, line) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// clip shortens s to at most limit bytes on a character's edge.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	limit = max(limit, 0)
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// IsNoRows reports whether a query that wanted a row found none.
func IsNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
