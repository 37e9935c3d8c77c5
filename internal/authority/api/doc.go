// Package api serves intents over HTTP: what a person asks for once, the receipts of
// it, and who has authority over a matter. docs/INTENTS.md is the protocol.
//
// It owns no table. Every verdict is authority.Submit's, in one transaction; this
// package says it in HTTP and adds what a client needs to go on: where authority is,
// when to come back, and what is known of the intent already. A request that dies
// before its answer leaves a receipt or nothing, and the same request again gets the
// stored answer.
//
// What a refusal means is in its type, never in its status alone: 409 is a document
// that changed, an authority that moved or an outcome that nobody knows yet, and the
// three are never folded into one.
//
// A caller is whoever knows a token, for one firm or for all; the file of tokens is
// asked at each request, and where it cannot be read nobody is let in. Not promised:
// that a matter exists (the rail learns of matters by facts), and that what a read
// announces is still so when it arrives.
package api
