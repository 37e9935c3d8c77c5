// Package archtest makes the house's laws executable: which room may import
// which, which room may name which table, how large a piece may be, and what
// every name must say about itself.
//
// Its tests read the source of the whole module, including files that do not
// compile at the moment, and judge what is written there. Every law has a small
// broken example that it must refuse and a sound one that it must accept, so a
// law that has stopped working is noticed.
//
// The package owns nothing, runs nothing and is imported by nobody. It does not
// promise that a room is well made, only that it stands where it says it does.
package archtest
