// Package sweep keeps the ledger moving and bounded: it fails the claims whose
// lease ran out, takes away what retention allows, and asks for the canary.
//
// It owns no table: it composes the owners. Every worker sweeps and there is no
// leader; each step is one statement that picks and writes together and skips what
// somebody holds, so any number of sweepers, stopped at any line, is right.
//
// Postgres decides whether a lease has run out, by its own clock. Not promised:
// that an expired claim's worker has stopped. It may still be building; it can no
// longer write.
package sweep
