// Package pg is the only way to PostgreSQL: it opens pools and single sessions,
// runs transactions, sorts errors, and keeps the schema's version.
//
// It owns <schema>.schema_version and <schema>.schema_checksums and no other
// table. A session is fresh, fit or spoilt: fresh ones must accept writes or are
// refused at connect, and a spoilt one (its server turned read-only, said goodbye,
// or the caller called Discard) is closed at its next acquire and never handed out
// again. The first two empty the whole pool, and a session that nobody uses for some
// seconds is closed, so that none stays with a server that another has replaced. The
// server decides whether it takes writes; the pool only believes it.
//
// The outcome of a transaction is committed, not committed, or unknown, and the
// last is said with ErrUnknownOutcome rather than guessed. The package does not
// retry: a caller knows whether its work may run twice, this package does not. It
// does not promise that a session survives, or that a server which accepted a
// write a moment ago accepts the next.
package pg
