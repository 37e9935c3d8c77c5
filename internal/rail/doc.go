// Package rail holds the words that every room of the rail shares: the key of a
// matter, the fencing token of a claim, the grammar of an event name, and the
// urgency of a demand.
//
// It owns no table and no state, decides nothing, and imports the standard
// library only, so that the meaning of a word cannot depend on a technology.
// It does not promise that a Key names a matter which exists: only Postgres
// knows that.
package rail
