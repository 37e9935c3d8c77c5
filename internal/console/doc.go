// Package console is the operator's pages: what is stale right now and why, one
// matter's story, runs, parked matters, pauses of dispatch, the outbox; and the few
// acts that an operator has, each with a reason and its row in the audit log.
//
// It owns no table. What it shows is read through internal/audit (and the outbox's
// own lists), what it does is done by the owners, in one transaction each with the
// audit row; the database decides, and a refusal is told in its words. Its own state
// is small and of this process: the sessions of those who logged in, the last looks
// at the ledger, and who watches.
//
// A look is the answer to one page's questions. It is kept for the length of one
// interval and shared by whoever asks; while anybody watches a page, one loop looks
// again each interval, however many watch, and tells them that something is
// different. They then ask for the page, and get that look. A look that failed is
// told as failed; an old one is never shown in its place.
//
// Without a token nothing can be changed. With one, a change needs a session (of a
// login with that token), the session's own secret in the form, and a request from
// the console's own origin. Text from the ledger is untrusted: it is cleaned, cut and
// isolated before it is shown.
//
// Pages about what may be taken out of the house whole come in files of their own, which
// nothing else names: they add themselves by one method, and only show.
//
// Addresses are relative, so the handler may be mounted anywhere. Not promised: that
// what is shown is still so, and that anybody is kept out who can reach the port of a
// console that is not Closed.
package console
