// Package client sends intents to whoever has authority over a matter, once.
//
// It owns drafts: what a person asked for, kept by matter and intent until the caller
// forgets it, whatever becomes of servers, connections and this process. A draft is
// written down before it is sent, so that a process that dies between the two finds it
// as sent, and asks before it sends again.
//
// Three things look alike to a caller and are kept apart:
//
//	the document changed   *Conflict: nothing is retried; a person has to look
//	authority moved        followed: the receipt is asked for at the new authority, then the
//	                       same intent and digest go there; *Moved where it cannot be followed
//	the reply was lost     the receipt is asked for; only where there is none is the same
//	                       intent sent again; *Lost when that led nowhere
//
// and beside them *Closing (come back with the same intent), *Retired (this path decides
// nothing any more), *Unknown (an old authority has it and has not said; it is never sent
// again) and *Differs (the id belongs to something else).
//
// The servers decide. What the client adds is that the same intent keeps its id and its
// digest however often it is sent, so that it is executed at most once. It does not
// promise that an intent is ever decided: it tries for a bounded time and says where it
// stands. docs/INTENTS.md is the protocol; only the standard library is used.
package client
