// Package audit answers questions about the ledger: is every property still true
// (Check), how does the whole stand (ReadStatus), why is one matter as it is
// (Explain), does the database suit the rail (Doctor), and the gauges that come
// from rows (Collector).
//
// It owns no table and joins everybody's: it writes nothing, locks nothing, and
// its SQL is SELECT only. It has no state of its own but the Collector's last
// answers. Every answer is one snapshot of the database, all its times are the
// database's, and a question that failed is an error, never a stale or a zero.
//
// It decides nothing: what it finds is mended by the owners, on a person's word.
// Not promised: that an answer still holds when it is read, or exact counts where
// exact ones would cost a scan of every idle matter (those say so).
package audit
